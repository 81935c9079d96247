//! A plan over whole inputs, at once, in one thread: what a view must hold, found without its dataflow.
//!
//! # Not here
//! Incremental work (`dataflow`). What an operator computes ([`crate::kernel`]) is the same in both, so this tells
//! whether changes were followed, not whether operators are right.

use crate::kernel::{AggregateKernel, JoinKernel, Kernel, TopNKernel};
use crate::plan::{CollectionId, Node, ViewPlan};
use crate::row_errors::RowErrors;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Epoch, Result};

/// What a plan gives over its inputs.
#[derive(Debug, Default)]
pub struct BatchResult {
    /// Rows of the view; equal ones may stand apart, and with weights that cancel.
    pub rows: Vec<Changes>,
    /// Errors of rows, as [`crate::plan::row_error_columns`].
    pub errors: Vec<Changes>,
}

/// Runs a plan over whole inputs.
///
/// # Arguments
/// - `read`: the rows of a collection, by the columns that the plan has of it; called once per input node.
///
/// # Cost
/// Memory for everything between the operators, and for their state.
///
/// # Errors
/// An input cannot be read, or an operator fails other than by a row.
pub fn evaluate<I: Iterator<Item = Result<RecordBatch>>>(
    plan: &ViewPlan,
    mut read: impl FnMut(CollectionId, &SchemaRef) -> Result<I>,
) -> Result<BatchResult> {
    let mut outputs: Vec<Vec<Changes>> = Vec::with_capacity(plan.nodes.len());
    let mut errors = Vec::new();
    for node in &plan.nodes {
        let of = |input: usize| &outputs[input];
        let made = match node {
            Node::Input { collection, schema } => {
                let rows = read(*collection, schema)?.map(|rows| rows.map(Changes::insertions));
                rows.collect::<Result<_>>()?
            }
            Node::Constant { rows } => vec![rows.clone()],
            Node::Union { inputs, .. } => inputs.iter().flat_map(|input| of(*input).iter().cloned()).collect(),
            Node::Map { input, program } => {
                let mut failed = RowErrors::new(&program.describe(), program.input_names());
                let mut made = Vec::new();
                for changes in of(*input) {
                    let (rows, errors_of) = failed.run(&**program, changes.clone())?;
                    made.extend(rows);
                    errors.extend(errors_of);
                }
                made
            }
            Node::Aggregate(node) => run(AggregateKernel::new(node, true), &[of(node.input)], &mut errors)?,
            Node::TopN(node) => run(TopNKernel::new(node)?, &[of(node.input)], &mut errors)?,
            Node::Join(node) => run(JoinKernel::new(node), &[of(node.left), of(node.right)], &mut errors)?,
        };
        outputs.push(made);
    }
    Ok(BatchResult {
        rows: outputs.swap_remove(plan.root),
        errors,
    })
}

fn run(mut kernel: impl Kernel, inputs: &[&Vec<Changes>], errors: &mut Vec<Changes>) -> Result<Vec<Changes>> {
    let mut output = Vec::new();
    for (input, changes) in inputs.iter().enumerate() {
        for changes in changes.iter().filter(|changes| !changes.is_empty()) {
            kernel.push(input, changes, &mut output)?;
        }
    }
    kernel.finish(Epoch::ZERO, &mut output)?;
    errors.extend(kernel.take_errors()?);
    Ok(output)
}
