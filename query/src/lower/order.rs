//! ORDER BY with LIMIT, and ROW_NUMBER().

use super::{Lowered, Lowering, column_expr, df_schema, free_name, not_supported};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_engine::plan::{Node, TopN};
use cenote_statestore::{Error, Result};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::{Expr, FetchType, Limit, LogicalPlan, SkipType, Sort, Window};
use std::sync::Arc;

/// Rows to leave out and to keep.
#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    limit: Option<u64>,
}

impl Lowering {
    /// A sort keeps an order only as far as it limits; a view's own order is asked for when it is read.
    pub(super) fn lower_sort(&mut self, plan: &LogicalPlan, sort: &Sort) -> Result<Lowered> {
        let input = self.lower(&sort.input)?;
        match sort.fetch {
            None => Ok(input),
            Some(fetch) => {
                let range = Range {
                    offset: 0,
                    limit: Some(fetch as u64),
                };
                self.top_n(plan, input, &[], &sort.expr, range, None)
            }
        }
    }

    pub(super) fn lower_limit(&mut self, plan: &LogicalPlan, limit: &Limit) -> Result<Lowered> {
        let skip = match limit.get_skip_type().map_err(crate::error::from_datafusion)? {
            SkipType::Literal(skip) => skip as u64,
            SkipType::UnsupportedExpr => return Err(not_supported("OFFSET with an expression")),
        };
        let fetch = match limit.get_fetch_type().map_err(crate::error::from_datafusion)? {
            FetchType::Literal(fetch) => fetch.map(|fetch| fetch as u64),
            FetchType::UnsupportedExpr => return Err(not_supported("LIMIT with an expression")),
        };
        let range = Range {
            offset: skip,
            limit: fetch,
        };
        match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => {
                let input = self.lower(&sort.input)?;
                self.top_n(plan, input, &[], &sort.expr, range, None)
            }
            // A projection over a sort keeps the sort's order.
            LogicalPlan::Projection(projection) if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) => {
                let LogicalPlan::Sort(sort) = projection.input.as_ref() else {
                    return Err(Error::bug("a sort is not a sort"));
                };
                let input = self.lower(&sort.input)?;
                let first = self.top_n(plan, input, &[], &sort.expr, range, None)?;
                self.project(first, &projection.expr, &projection.schema, &[])
            }
            other => {
                let input = self.lower(other)?;
                self.top_n(plan, input, &[], &[], range, None)
            }
        }
    }

    pub(super) fn lower_window(&mut self, plan: &LogicalPlan, window: &Window) -> Result<Lowered> {
        let mut lowered = self.lower(&window.input)?;
        for expr in &window.window_expr {
            let Expr::WindowFunction(function) = unalias(expr) else {
                return Err(not_supported(format!("the window expression {expr}")));
            };
            if function.fun.name() != "row_number" {
                return Err(not_supported(format!("the window function {}", function.fun.name())));
            }
            lowered = self.row_number(plan, lowered, function, window.schema.as_ref())?;
        }
        Ok(lowered)
    }

    fn row_number(
        &mut self,
        plan: &LogicalPlan,
        input: Lowered,
        function: &WindowFunction,
        names: &DFSchema,
    ) -> Result<Lowered> {
        // The window's columns follow the input's, in order.
        let number = input.schema.fields().len();
        let (qualifier, field) = names.qualified_field(number);
        let name = (qualifier.cloned(), field.name().clone());
        let partition = function.params.partition_by.clone();
        let range = Range { offset: 0, limit: None };
        let numbered = self.top_n(plan, input, &partition, &function.params.order_by, range, Some(name))?;
        // Expressions above were planned for the type that the planner gives row numbers.
        let exprs: Vec<Expr> = (0..=number)
            .map(|column| {
                let expr = column_expr(&numbered.schema, column);
                let wanted = names.field(column).data_type().clone();
                if column == number {
                    datafusion::prelude::cast(expr, wanted)
                } else {
                    expr
                }
            })
            .collect();
        let named = numbered.schema.as_ref().clone();
        self.project(numbered, &exprs, &named, &[])
    }

    fn top_n(
        &mut self,
        plan: &LogicalPlan,
        input: Lowered,
        partition: &[Expr],
        order: &[SortExpr],
        range: Range,
        row_number: Option<(Option<datafusion::common::TableReference>, String)>,
    ) -> Result<Lowered> {
        let width = input.schema.fields().len();
        let key = input.key.clone();
        let names = input.schema.clone();
        let wanted: Vec<&Expr> = partition.iter().chain(order.iter().map(|sort| &sort.expr)).collect();
        let (input, positions) = self.with_order_columns(input, &wanted)?;
        let input_schema = self.schema_of(input.node);
        let mut fields: Vec<_> = input.schema.iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        let numbered = row_number.is_some();
        if let Some((qualifier, name)) = row_number {
            fields.push((qualifier, Arc::new(Field::new(name, DataType::Int64, true))));
        }
        let schema = df_schema(fields)?;
        let options = order.iter().map(|sort| SortOptions {
            descending: !sort.asc,
            nulls_first: sort.nulls_first,
        });
        let arrow: SchemaRef = Arc::new(schema.as_arrow().clone());
        let name = self.state_name(if numbered { "row_number" } else { "top_n" }, plan);
        let node = self.add(Node::TopN(TopN {
            name,
            input: input.node,
            partition: positions[..partition.len()].to_vec(),
            order: positions[partition.len()..].iter().copied().zip(options).collect(),
            offset: range.offset,
            limit: range.limit,
            row_number: numbered,
            input_schema,
            schema: arrow,
        }));
        let extra = schema.fields().len() - width - numbered as usize;
        let result = Lowered {
            node,
            schema: Arc::new(schema),
            key,
        };
        if extra == 0 {
            return Ok(result);
        }
        let kept: Vec<usize> = (0..width).chain(numbered.then_some(width + extra)).collect();
        let exprs: Vec<Expr> = kept.iter().map(|column| column_expr(&result.schema, *column)).collect();
        let fields: Vec<_> = names
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), field.clone()))
            .chain(numbered.then(|| {
                let (qualifier, field) = result.schema.qualified_field(width + extra);
                (qualifier.cloned(), field.clone())
            }))
            .collect();
        self.project(result, &exprs, &df_schema(fields)?, &[])
    }

    /// Adds columns for partition and order expressions that are not columns.
    fn with_order_columns(&mut self, input: Lowered, wanted: &[&Expr]) -> Result<(Lowered, Vec<usize>)> {
        let width = input.schema.fields().len();
        let mut exprs: Vec<Expr> = (0..width).map(|column| column_expr(&input.schema, column)).collect();
        let mut names: Vec<_> = input.schema.iter().map(|(q, f)| (q.cloned(), f.clone())).collect();
        let (mut positions, mut computed) = (Vec::new(), Vec::new());
        for expr in wanted {
            let column = match expr {
                Expr::Column(column) => input.schema.maybe_index_of_column(column),
                _ => None,
            };
            // Floats are ordered by value: one zero, one NaN.
            let column = column.filter(|index| !input.schema.field(*index).data_type().is_floating());
            positions.push(column.unwrap_or(exprs.len()));
            if column.is_none() {
                computed.push(exprs.len());
                let name = free_name(&names, format!("order_{}", exprs.len() - width + 1));
                names.push((None, Arc::new(Field::new(name, DataType::Null, true))));
                exprs.push((*expr).clone());
            }
        }
        if computed.is_empty() {
            return Ok((input, positions));
        }
        Ok((self.project(input, &exprs, &df_schema(names)?, &computed)?, positions))
    }
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}
