//! Types that Arrow has no word for: `oid`, `regclass` and its kind, `name`, `"char"`.
//!
//! Columns of the system tables say their PostgreSQL type in their field's metadata, which DataFusion carries from
//! expression to expression, and over casts too. What a cast means is therefore decided here, on the plan: its result
//! gets the type it was cast to, and `regclass` and its kind are read from names and printed as names.

use crate::pgtype::{ColumnType, TYPE_KEY};
use arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr::{Alias, Cast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use std::collections::{BTreeMap, HashMap};

/// Types whose values are OIDs that are shown as names.
const NAMED: [&str; 5] = ["regclass", "regtype", "regnamespace", "regproc", "regrole"];

/// The metadata of a field of that PostgreSQL type.
pub(crate) fn metadata(pg_type: &str) -> HashMap<String, String> {
    HashMap::from([(TYPE_KEY.to_string(), pg_type.to_string())])
}

/// Gives casts PostgreSQL's meaning, and shows OIDs of named types as names in the result.
pub(super) fn apply(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Limit(_) | LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node
            .map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewrite(expr, &schema, state))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?
            .data;
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    show_names(rewritten.data, state)
}

fn type_in(metadata: &BTreeMap<String, String>) -> Option<&str> {
    metadata.get(TYPE_KEY).map(String::as_str)
}

fn rewrite(expr: Expr, schema: &DFSchema, state: &SessionState) -> Result<Transformed<Expr>> {
    let (inner, field) = match &expr {
        Expr::Cast(Cast { expr: inner, field }) => (inner, field),
        Expr::Case(_) | Expr::AggregateFunction(_) => {
            return Ok(match computed_type(&expr, schema) {
                Some(named) => Transformed::yes(with_type(expr.clone(), &expr, &named)),
                None => Transformed::no(expr),
            });
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let Ok((_, source)) = inner.to_field(schema) else {
        return Ok(Transformed::no(expr));
    };
    let from = source.metadata().get(TYPE_KEY).map(String::as_str);
    let to = field.metadata().get(TYPE_KEY).map(String::as_str);
    if from.is_none() && to.is_none() {
        return Ok(Transformed::no(expr));
    }
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
    let named = |name: Option<&str>| NAMED.iter().find(|named| Some(**named) == name);
    let value = match (named(from), named(to)) {
        (Some(named), _) if is_text(field.data_type()) => call(state, &format!("cenote_{named}_out"), inner)?,
        (_, Some(named)) if is_text(source.data_type()) => call(state, &format!("cenote_{named}_in"), inner)?,
        _ => expr.clone(),
    };
    let target = to.map_or_else(|| ColumnType::of(&plain(field)).display(), str::to_string);
    Ok(Transformed::yes(with_type(value, &expr, &target)))
}

/// A value of a PostgreSQL type, under the name of the expression that it stands for.
fn with_type(value: Expr, named: &Expr, pg_type: &str) -> Expr {
    let metadata = FieldMetadata::new(BTreeMap::from([(TYPE_KEY.to_string(), pg_type.to_string())]));
    let alias = Alias::new(value, None::<&str>, named.schema_name().to_string());
    Expr::Alias(alias.with_metadata(Some(metadata)))
}

/// The type of an expression that takes it over from what it is computed of: a CASE from its first branch that has one,
/// `array_agg` from its argument, as an array.
fn computed_type(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let own = |expr: &Expr| {
        let (_, field) = expr.to_field(schema).ok()?;
        field.metadata().get(TYPE_KEY).cloned()
    };
    match expr {
        Expr::Case(case) => case.when_then_expr.iter().find_map(|(_, then)| own(then)),
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            own(call.params.args.first()?).map(|element| format!("{element}[]"))
        }
        _ => None,
    }
}

fn plain(field: &Field) -> Field {
    field.clone().with_metadata(HashMap::new())
}

fn call(state: &SessionState, function: &str, argument: &Expr) -> Result<Expr> {
    Ok(state.udf(function)?.call(vec![argument.clone()]))
}

/// Names in the place of OIDs in the columns of a result.
fn show_names(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let named = |field: &Field| {
        let metadata: BTreeMap<String, String> = field.metadata().clone().into_iter().collect();
        let name = type_in(&metadata)?;
        NAMED.iter().find(|named| **named == name).copied()
    };
    let schema = plan.schema().clone();
    if !schema.fields().iter().any(|field| named(field).is_some()) {
        return Ok(plan);
    }
    let shown = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(datafusion::common::Column::from((qualifier, field)));
        match named(field) {
            Some(named) => {
                let text = call(state, &format!("cenote_{named}_out"), &column)?;
                Ok(text.alias_qualified(qualifier.cloned(), field.name()))
            }
            None => Ok(column),
        }
    });
    let shown = shown.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}
