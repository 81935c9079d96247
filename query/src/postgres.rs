//! PostgreSQL's typing rules, as a rewrite of the plan before DataFusion coerces types.
//!
//! - sum(bigint) is NUMERIC. A rewrite, because sums of smaller integers are coerced to sums of BIGINT and stay that.
//! - Casts of NUMERIC to integers round; DataFusion's cut.
//! - Sums, differences and products of integers that are out of range are errors; DataFusion's wrap.
//! - A parameter that is cast is of the type it is cast to.
//! - Text literals cast to BYTEA are read in its input form (`\x6162`).
//!
//! Rewritten expressions keep their names, by which the nodes above know them.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::prelude::cast;
use datafusion::scalar::ScalarValue;

/// Applies PostgreSQL's typing rules to a plan.
pub(crate) fn apply_rules(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        // The counts of LIMIT and OFFSET have a type of their own.
        if matches!(node, LogicalPlan::Limit(_) | LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node
            .map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?
            .data;
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(rewritten.data)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Cast(Cast { expr: inner, field }) => rewrite_cast(&expr, inner, field, schema),
        Expr::BinaryExpr(binary) => match crate::arithmetic::checked(binary, schema)? {
            Some(checked) => Ok(Transformed::yes(checked)),
            None => Ok(Transformed::no(expr)),
        },
        Expr::AggregateFunction(call) if call.func.name() == "sum" => match call.params.args.as_slice() {
            [argument] if argument.get_type(schema)? == DataType::Int64 => {
                let mut call = call.clone();
                call.params.args = vec![cast(call.params.args.remove(0), DataType::Decimal128(28, 0))];
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            _ => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    }
}

fn rewrite_cast(expr: &Expr, inner: &Expr, field: &FieldRef, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let to = field.data_type();
    match (inner, to) {
        // A parameter that is cast is of the type it is cast to.
        (Expr::Placeholder(parameter), _) if parameter.field.is_none() => {
            let typed = Placeholder::new_with_field(parameter.id.clone(), Some(field.clone()));
            let cast = Cast::new_from_field(Box::new(Expr::Placeholder(typed)), field.clone());
            Ok(Transformed::yes(Expr::Cast(cast)))
        }
        (Expr::Literal(ScalarValue::Utf8(Some(text)), metadata), DataType::Binary) => {
            let value = crate::pgtext::parse_scalar(Some(text), to, &crate::pgtext::TextStyle::default())
                .map_err(crate::provider::outside)?;
            Ok(Transformed::yes(Expr::Literal(value, metadata.clone())))
        }
        (_, DataType::Int16 | DataType::Int32 | DataType::Int64) => match inner.get_type(schema) {
            Ok(DataType::Decimal128(_, scale)) if scale > 0 => Ok(Transformed::yes(cast(
                cast(inner.clone(), DataType::Decimal128(38, 0)),
                to.clone(),
            ))),
            _ => Ok(Transformed::no(expr.clone())),
        },
        _ => Ok(Transformed::no(expr.clone())),
    }
}
