//! `cenote_catalog.operators` and EXPLAIN ANALYZE of a view: its operators, what they have done since the view was
//! created (at a restart, since then), and how much state they keep.

use crate::catalog::{MaterializedView, Object};
use crate::database::SIZES_ASKED;
use crate::explain::describe;
use crate::plan::ReadView;
use crate::system::Columns;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::OperatorFigures;
use cenote_engine::plan::Node;
use cenote_statestore::{Result, VersionedTable};
use futures::{StreamExt, TryStreamExt};

/// One operator with its figures.
struct Operator {
    view: String,
    number: i64,
    kind: &'static str,
    inputs: String,
    description: String,
    state_tables: String,
    figures: OperatorFigures,
    state: (u64, u64),
}

/// The operators of all views, or of one.
pub(crate) async fn operators(view: &ReadView, of: Option<&str>) -> Result<RecordBatch> {
    let wanted = view.catalog.objects().filter_map(|object| match object {
        Object::MaterializedView(materialized) if of.is_none_or(|name| name == object.name()) => Some(materialized),
        _ => None,
    });
    let asked: Vec<_> = wanted.map(|materialized| of_view(view, materialized)).collect();
    let operators = futures::stream::iter(asked).buffered(SIZES_ASKED);
    let operators: Vec<Vec<Operator>> = operators.try_collect().await?;
    table(&operators.into_iter().flatten().collect::<Vec<_>>())
}

/// Columns of the table.
pub(crate) fn columns() -> Result<SchemaRef> {
    Ok(table(&[])?.schema())
}

fn table(found: &[Operator]) -> Result<RecordBatch> {
    let texts = |of: fn(&Operator) -> &str| found.iter().map(|operator| Some(of(operator).to_string())).collect();
    let numbers = |of: fn(&Operator) -> u64| found.iter().map(|operator| of(operator) as i64).collect();
    Columns::default()
        .text("view", texts(|operator| &operator.view))
        .number("operator", found.iter().map(|operator| operator.number).collect())
        .text("kind", texts(|operator| operator.kind))
        .text("inputs", texts(|operator| &operator.inputs))
        .text("description", texts(|operator| &operator.description))
        .text("state_tables", texts(|operator| &operator.state_tables))
        .number("rows_in", numbers(|operator| operator.figures.rows_in))
        .number("rows_out", numbers(|operator| operator.figures.rows_out))
        .number("batches_in", numbers(|operator| operator.figures.batches_in))
        .number("batches_out", numbers(|operator| operator.figures.batches_out))
        .number("cpu_us", numbers(|operator| operator.figures.cpu.as_micros() as u64))
        .number("state_rows", numbers(|operator| operator.state.0))
        .number("state_bytes", numbers(|operator| operator.state.1))
        .batch()
}

/// The operators of a view in the order of its plan, then what writes its table and its errors.
async fn of_view(view: &ReadView, of: &MaterializedView) -> Result<Vec<Operator>> {
    let sizes = view.database.engine().state_sizes(of.definition.id).await?;
    let figures = of.meters.figures();
    let operator = |number: usize, kind: &'static str, inputs: String, figures: OperatorFigures| Operator {
        view: of.definition.name.clone(),
        number: number as i64,
        kind,
        inputs,
        description: String::new(),
        state_tables: String::new(),
        figures,
        state: (0, 0),
    };
    let mut found = Vec::new();
    for (id, node) in of.plan.nodes.iter().enumerate() {
        let inputs = node.inputs();
        let own = match node {
            // A union is only a meeting of streams.
            Node::Union { .. } => passed_on(inputs.iter().map(|input| figures[*input])),
            _ => figures[id],
        };
        let names: Vec<String> = node.state_tables().into_iter().map(|table| table.name).collect();
        let kept = sizes.iter().filter(|(node, ..)| *node == id);
        found.push(Operator {
            description: describe(view, node),
            state_tables: names.join(", "),
            state: kept.fold((0, 0), |sum, (_, _, rows, bytes)| (sum.0 + rows, sum.1 + bytes)),
            ..operator(id, node.kind(), numbered(&inputs), own)
        });
    }
    let nodes = of.plan.nodes.len();
    found.push(Operator {
        state: size_of(&of.versioned),
        ..operator(nodes, "view", numbered(&[of.plan.root]), figures[nodes])
    });
    if let Some(errors) = &of.errors {
        let fallible = of.plan.nodes.iter().enumerate().filter(|(_, node)| node.is_fallible());
        let inputs: Vec<usize> = fallible.map(|(id, _)| id).collect();
        found.push(Operator {
            state_tables: errors.schema().name.clone(),
            state: size_of(errors),
            ..operator(nodes + 1, "errors", numbered(&inputs), figures[nodes + 1])
        });
    }
    Ok(found)
}

fn numbered(inputs: &[usize]) -> String {
    let inputs: Vec<String> = inputs.iter().map(|input| format!("#{input}")).collect();
    inputs.join(" ")
}

fn size_of(table: &VersionedTable) -> (u64, u64) {
    let statistics = table.statistics();
    (statistics.rows, statistics.bytes)
}

fn passed_on(inputs: impl Iterator<Item = OperatorFigures>) -> OperatorFigures {
    inputs.fold(OperatorFigures::default(), |sum, input| OperatorFigures {
        rows_in: sum.rows_in + input.rows_out,
        rows_out: sum.rows_out + input.rows_out,
        batches_in: sum.batches_in + input.batches_out,
        batches_out: sum.batches_out + input.batches_out,
        cpu: sum.cpu,
    })
}
