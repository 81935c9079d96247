//! Row programs: DataFusion's physical expressions as the engine's stateless work.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use cenote_engine::plan::{Predicate, RowProgram};
use cenote_statestore::{Changes, Error, Result};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;

/// One step of a program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Keep the rows where it is true.
    Filter(Arc<dyn PhysicalExpr>),
    /// Compute columns.
    Project(Arc<Projection>),
}

/// Columns to compute.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(crate) exprs: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) schema: SchemaRef,
    /// Columns that are compared as keys: floats in them are made one (`-0.0`, NaN).
    pub(crate) keys: Vec<bool>,
}

/// Filters and projections, run one after the other on each batch.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) schema: SchemaRef,
    /// Whether there can be a row that a step fails on.
    pub(crate) is_fallible: bool,
    /// The names of the columns of its input that a user knows.
    pub(crate) input_names: Vec<String>,
}

impl RowProgram for Program {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn is_fallible(&self) -> bool {
        self.is_fallible
    }

    fn run(&self, mut changes: Changes) -> Result<Changes> {
        for step in &self.steps {
            if changes.is_empty() {
                return Ok(Changes::empty(self.schema.clone()));
            }
            changes = match step {
                Step::Filter(expr) => {
                    let mask = evaluate(expr, changes.rows())?;
                    changes.filter(mask.as_boolean())?
                }
                Step::Project(projection) => changes.with_rows(projection.run(changes.rows())?),
            };
        }
        Ok(changes)
    }

    fn input_names(&self) -> &[String] {
        &self.input_names
    }

    fn describe(&self) -> String {
        let steps = self.steps.iter().map(|step| match step {
            Step::Filter(expr) => format!("filter {expr}"),
            Step::Project(projection) => {
                let exprs: Vec<String> = projection.exprs.iter().map(|expr| expr.to_string()).collect();
                format!("project {}", exprs.join(", "))
            }
        });
        crate::names::renumbered(&steps.collect::<Vec<_>>().join("; "))
    }
}

impl Step {
    /// Whether there can be a row that it fails on.
    pub(crate) fn can_fail(&self, input: &SchemaRef) -> bool {
        let fails = |expr| crate::fallible::physical_can_fail(expr, input);
        match self {
            Step::Filter(expr) => fails(expr),
            Step::Project(projection) => projection.exprs.iter().any(fails),
        }
    }
}

impl Projection {
    fn run(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.exprs.len());
        for ((expr, field), is_key) in self.exprs.iter().zip(self.schema.fields()).zip(&self.keys) {
            let column = evaluate(expr, rows)?;
            let column = if column.data_type() == field.data_type() {
                column
            } else {
                cast(&column, field.data_type()).map_err(|error| failure(error.into()))?
            };
            columns.push(if *is_key { canonical(column) } else { column });
        }
        Changes::batch(self.schema.clone(), columns, rows.num_rows())
    }

    /// Whether it only takes columns `0..n` of its input as they are.
    pub(crate) fn is_identity(&self, input: &SchemaRef) -> bool {
        self.exprs.len() == input.fields().len()
            && self
                .exprs
                .iter()
                .enumerate()
                .all(|(index, expr)| column_of(expr) == Some(index))
            && self
                .schema
                .fields()
                .iter()
                .zip(input.fields())
                .all(|(a, b)| a.data_type() == b.data_type())
            && !self.has_float_key()
    }

    fn has_float_key(&self) -> bool {
        self.schema
            .fields()
            .iter()
            .zip(&self.keys)
            .any(|(field, key)| *key && field.data_type().is_floating())
    }
}

/// The input column that an expression is, if it is nothing else.
pub(crate) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(rows)
        .and_then(|value| value.into_array(rows.num_rows()))
        .map_err(failure)
}

/// What an expression failed with: a row's error, or a fault that is none's.
fn failure(error: DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::Internal(text) => Error::bug(format!("an expression cannot be evaluated: {text}")),
        _ => crate::error::from_datafusion(error),
    }
}

/// Floats as keys: one zero, one NaN.
fn canonical(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            let floats: Float64Array = floats.unary(|value| if value.is_nan() { f64::NAN } else { value + 0.0 });
            Arc::new(floats)
        }
        DataType::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            let floats: Float32Array = floats.unary(|value| if value.is_nan() { f32::NAN } else { value + 0.0 });
            Arc::new(floats)
        }
        _ => column,
    }
}

/// A join's residual condition.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// Whether there can be a pair of rows that it fails on.
    pub(crate) is_fallible: bool,
    /// The names of the columns of a pair that a user knows.
    pub(crate) input_names: Vec<String>,
}

impl Predicate for Condition {
    fn is_fallible(&self) -> bool {
        self.is_fallible
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        Ok(evaluate(&self.expr, rows)?.as_boolean().clone())
    }

    fn input_names(&self) -> &[String] {
        &self.input_names
    }

    fn describe(&self) -> String {
        crate::names::renumbered(&self.expr.to_string())
    }
}
