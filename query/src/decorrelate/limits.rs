//! LIMIT and OFFSET of a subquery: the first rows for each row of the domain, by their number.

use super::flatten::{Flat, Flattening};
use super::{column_of, unsupported};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, Window, WindowFrame,
    WindowFrameBound, WindowFrameUnits, lit,
};
use datafusion::prelude::cast;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Rows to leave out and to keep.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) skip: usize,
    pub(super) fetch: Option<usize>,
}

impl Range {
    /// # Errors
    /// 0A000: a number that is no constant.
    pub(super) fn of(limit: &Limit) -> Result<Range> {
        let skip = match limit.get_skip_type()? {
            SkipType::Literal(skip) => skip,
            SkipType::UnsupportedExpr => return Err(unsupported("OFFSET with an expression in a subquery")),
        };
        let fetch = match limit.get_fetch_type()? {
            FetchType::Literal(fetch) => fetch,
            FetchType::UnsupportedExpr => return Err(unsupported("LIMIT with an expression in a subquery")),
        };
        Ok(Range { skip, fetch })
    }
}

impl Flattening<'_> {
    pub(super) fn first_rows(&mut self, range: Range, order: &[Sort], input: &LogicalPlan) -> Result<Flat> {
        let flat = self.plan(input)?;
        let inside = order.iter().map(|sort| {
            let expr = self.inside(sort.expr.clone(), input.schema(), &flat.columns)?;
            Ok(Sort { expr, ..sort.clone() })
        });
        let domain: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        let (unbounded, current) = (ScalarValue::UInt64(None), WindowFrameBound::CurrentRow);
        let frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, WindowFrameBound::Preceding(unbounded), current);
        let number = row_number()
            .partition_by(domain.clone())
            .order_by(inside.collect::<Result<_>>()?)
            .window_frame(frame)
            .build()?;
        let (number, column) = column_of(number, &self.rewrite.name("numbered"), "row");
        let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(flat.plan))?);
        let position = cast(Expr::Column(column), DataType::Int64);
        let (skip, mut kept) = (as_i64(range.skip), Vec::new());
        if range.skip > 0 {
            kept.push(position.clone().gt(lit(skip)));
        }
        if let Some(fetch) = range.fetch {
            kept.push(position.lt_eq(lit(skip.saturating_add(as_i64(fetch)))));
        }
        let plan = super::flatten::filtered(window, kept)?;
        let own = input.schema().columns().into_iter().map(Expr::Column);
        let plan = LogicalPlanBuilder::from(plan)
            .project(domain.into_iter().chain(own))?
            .build()?;
        Ok(Flat { plan, ..flat })
    }
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
