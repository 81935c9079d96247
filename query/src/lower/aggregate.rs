//! Aggregation and DISTINCT.

use super::{Lowered, Lowering, column_expr, df_schema, not_supported};
use crate::gathered::Gathering;
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_engine::plan::{Aggregate as AggregateNode, AggregateCall, AggregateFunction, Elements, Node};
use cenote_statestore::Result;
use cenote_statestore::forms::list;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{AggregateFunction as CallExpr, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use std::sync::Arc;

/// An aggregate call with its columns still expressions.
struct Call {
    function: AggregateFunction,
    argument: Option<usize>,
    filter: Option<usize>,
    distinct: bool,
    elements: Option<Elements>,
}

/// Expressions computed below an aggregation: keys first, then arguments and filters, each once.
#[derive(Default)]
struct Below(Vec<Expr>);

impl Below {
    /// Names for the computed columns, which their state tables show: a column's own, else a number; each once.
    fn names(&self) -> Vec<(Option<datafusion::common::TableReference>, Arc<Field>)> {
        let mut seen = std::collections::HashSet::new();
        let mut named = Vec::new();
        for (index, expr) in self.0.iter().enumerate() {
            let own = match strip_cast(expr) {
                // The planner's names of unnamed columns are whole expressions.
                Expr::Column(column) if !column.name.contains('(') => column.name.clone(),
                _ => format!("expr_{}", index + 1),
            };
            let name = if seen.insert(own.clone()) {
                own
            } else {
                format!("{own}_{}", index + 1)
            };
            seen.insert(name.clone());
            named.push((None, Arc::new(Field::new(name, DataType::Null, true))));
        }
        named
    }

    fn position(&mut self, expr: &Expr) -> usize {
        if let Some(known) = self.0.iter().position(|known| known == expr) {
            return known;
        }
        self.0.push(expr.clone());
        self.0.len() - 1
    }
}

impl Lowering {
    pub(super) fn lower_aggregate(&mut self, plan: &LogicalPlan, aggregate: &Aggregate) -> Result<Lowered> {
        if let [Expr::GroupingSet(grouping)] = aggregate.group_expr.as_slice() {
            return self.lower_grouping_sets(aggregate, grouping);
        }
        let input = self.lower(&aggregate.input)?;
        let mut below = Below(aggregate.group_expr.iter().map(|expr| unalias(expr).clone()).collect());
        let keys = below.0.len();
        let calls: Vec<Call> = aggregate
            .aggr_expr
            .iter()
            .map(|expr| call_of(expr, &mut below, &input.schema))
            .collect::<Result<_>>()?;
        let names = below.names();
        let key_positions: Vec<usize> = (0..keys).collect();
        let projected = self.project(input, &below.0, &df_schema(names)?, &key_positions)?;
        // The node's own schema may be older than the casts that type coercion put below its calls.
        let planned = aggregate
            .aggr_expr
            .iter()
            .map(|expr| {
                unalias(expr)
                    .get_type(aggregate.input.schema())
                    .map_err(crate::error::from_datafusion)
            })
            .collect::<Result<Vec<_>>>()?;
        self.aggregate_node(plan, projected, keys, calls, &planned, &aggregate.schema)
    }

    fn aggregate_node(
        &mut self,
        plan: &LogicalPlan,
        input: Lowered,
        keys: usize,
        calls: Vec<Call>,
        planned: &[DataType],
        names: &DFSchema,
    ) -> Result<Lowered> {
        let input_schema = self.schema_of(input.node);
        let mut fields = Vec::new();
        let mut node_calls = Vec::new();
        for (index, (qualifier, field)) in names.iter().enumerate() {
            let data_type = if index < keys {
                input_schema.field(index).data_type().clone()
            } else {
                let call = &calls[index - keys];
                let output = result_type(call, &input_schema, &planned[index - keys])?;
                node_calls.push(AggregateCall {
                    function: call.function,
                    argument: call.argument,
                    filter: call.filter,
                    distinct: call.distinct,
                    output: output.clone(),
                    elements: call.elements.clone(),
                });
                output
            };
            fields.push((qualifier.cloned(), Arc::new(Field::new(field.name(), data_type, true))));
        }
        let schema = df_schema(fields)?;
        let kind = if node_calls.is_empty() { "distinct" } else { "aggregate" };
        let name = self.state_name(kind, plan);
        let node = AggregateNode {
            name,
            input: input.node,
            keys: (0..keys).collect(),
            calls: node_calls,
            schema: Arc::new(schema.as_arrow().clone()),
            input_schema,
        };
        let node = self.add(Node::Aggregate(node));
        Ok(Lowered {
            node,
            schema: Arc::new(schema),
            key: Some((0..keys).collect()),
        })
    }

    pub(super) fn lower_distinct(&mut self, plan: &LogicalPlan, input: &LogicalPlan) -> Result<Lowered> {
        let input = self.lower(input)?;
        self.different_rows(plan, input)
    }

    /// Each different row once.
    ///
    /// # Arguments
    /// - `plan`: what the node's state is named after.
    pub(super) fn different_rows(&mut self, plan: &LogicalPlan, input: Lowered) -> Result<Lowered> {
        let count = input.schema.fields().len();
        let exprs: Vec<Expr> = (0..count).map(|column| column_expr(&input.schema, column)).collect();
        let (names, keys): (DFSchema, Vec<usize>) = (input.schema.as_ref().clone(), (0..count).collect());
        let projected = self.project(input, &exprs, &names, &keys)?;
        self.aggregate_node(plan, projected, count, Vec::new(), &[], &names)
    }
}

fn strip_cast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => strip_cast(&cast.expr),
        Expr::Alias(alias) => strip_cast(&alias.expr),
        other => other,
    }
}

/// The argument without the cast that makes PostgreSQL's result type: the kernel sums integers exactly as they are.
fn exact_argument<'a>(function: AggregateFunction, argument: &'a Expr, input: &DFSchema) -> &'a Expr {
    match argument {
        Expr::Cast(cast) if matches!(function, AggregateFunction::Sum | AggregateFunction::Avg) => {
            let target = cast.field.data_type();
            let inner = unalias(&cast.expr);
            if matches!(target, DataType::Decimal128(_, _) | DataType::Int64) && is_integer_column(inner, input) {
                return inner;
            }
            argument
        }
        other => other,
    }
}

/// Whether an expression is a bare column of whole numbers, whose casts to wider types change no value.
fn is_integer_column(expr: &Expr, input: &DFSchema) -> bool {
    let Expr::Column(column) = expr else {
        return false;
    };
    input.maybe_index_of_column(column).is_some_and(|index| {
        matches!(
            input.field(index).data_type(),
            DataType::Int16 | DataType::Int32 | DataType::Int64
        )
    })
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}

fn call_of(expr: &Expr, below: &mut Below, input: &DFSchema) -> Result<Call> {
    let Expr::AggregateFunction(CallExpr { func, params }) = unalias(expr) else {
        return Err(not_supported(format!("the aggregate {expr}")));
    };
    if let Some(gathering) = func.inner().downcast_ref::<Gathering>() {
        return Ok(gathered_call(gathering, params, below));
    }
    let function = match func.name() {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" | "mean" => AggregateFunction::Avg,
        // False is less than true.
        "min" | "bool_and" => AggregateFunction::Min,
        "max" | "bool_or" => AggregateFunction::Max,
        "stddev_samp" => AggregateFunction::StddevSamp,
        "stddev_pop" => AggregateFunction::StddevPop,
        "var_samp" => AggregateFunction::VarSamp,
        "var_pop" => AggregateFunction::VarPop,
        other => return Err(not_supported(format!("the aggregate {other}"))),
    };
    let argument = match params.args.as_slice() {
        [] => None,
        [Expr::Literal(value, _)] if function == AggregateFunction::Count && !params.distinct && !value.is_null() => {
            None
        }
        [argument] => {
            let argument = exact_argument(function, unalias(argument), input);
            Some(below.position(argument))
        }
        _ => return Err(not_supported(format!("{}() of several arguments", func.name()))),
    };
    if !params.order_by.is_empty() && function != AggregateFunction::Count {
        return Err(not_supported("ORDER BY inside an aggregate"));
    }
    let filter = params.filter.as_ref().map(|filter| below.position(filter));
    // The extreme of different values is the extreme of all.
    let extreme = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
    Ok(Call {
        function,
        argument,
        filter,
        distinct: params.distinct && !extreme,
        elements: None,
    })
}

/// A call over elements, whose columns are its arguments.
fn gathered_call(gathering: &Gathering, params: &AggregateFunctionParams, below: &mut Below) -> Call {
    let columns: Vec<usize> = params.args.iter().map(|arg| below.position(unalias(arg))).collect();
    let shows = gathering.function != AggregateFunction::Count;
    Call {
        function: gathering.function,
        argument: columns.get(gathering.value).copied().filter(|_| shows),
        filter: params.filter.as_ref().map(|filter| below.position(filter)),
        distinct: gathering.distinct,
        elements: Some(Elements {
            columns: columns.into_iter().zip(gathering.order.iter().copied()).collect(),
            value: gathering.value,
            delimiter: gathering.delimiter.clone(),
        }),
    }
}

/// Type of an aggregate's result: as planned, which has PostgreSQL's rules in it.
fn result_type(call: &Call, input: &SchemaRef, planned: &DataType) -> Result<DataType> {
    let argument = call.argument.map(|column| input.field(column).data_type());
    match (call.function, argument) {
        (AggregateFunction::Count, _) => Ok(DataType::Int64),
        (AggregateFunction::ArrayAgg, Some(argument)) => Ok(list::array_type(argument.clone())),
        (AggregateFunction::StringAgg, Some(_)) => Ok(DataType::Utf8),
        (AggregateFunction::Min | AggregateFunction::Max, Some(argument)) => match argument {
            DataType::Interval(_) => Err(not_supported("min and max of intervals")),
            other => Ok(other.clone()),
        },
        (
            _,
            Some(
                DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Decimal128(_, _)
                | DataType::Float32
                | DataType::Float64,
            ),
        ) => Ok(planned.clone()),
        (function, Some(argument)) => Err(not_supported(format!(
            "{}() of {}",
            function.name(),
            crate::types::type_name(argument)
        ))),
        (function, None) => Err(not_supported(format!("{}() without an argument", function.name()))),
    }
}
