//! View plans built by hand, with row programs and conditions that work row by row.

use crate::plan::{
    Aggregate, AggregateCall, AggregateFunction, CollectionId, Delimiter, Elements, Join, JoinKind, Node, NodeId,
    Predicate, RowProgram, TopN, ViewPlan,
};
use crate::rows::{Row, batch, changes, rows};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::{Changes, Result, TableSchema};
use std::fmt;
use std::sync::Arc;

/// Elements by value, NULLs last, for the functions that keep some.
fn elements_of(function: AggregateFunction, argument: Option<usize>) -> Option<Elements> {
    let keeps = matches!(function, AggregateFunction::ArrayAgg | AggregateFunction::StringAgg);
    argument.filter(|_| keeps).map(|argument| Elements {
        columns: vec![(argument, SortOptions::new(false, false))],
        value: 0,
        delimiter: Delimiter::Text(",".into()),
    })
}

/// A program that makes at most one row of each.
pub struct Rowwise<F> {
    schema: SchemaRef,
    row: F,
}

impl<F> fmt::Debug for Rowwise<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rowwise")
    }
}

impl<F: Fn(&Row) -> Result<Option<Row>> + Send + Sync + 'static> RowProgram for Rowwise<F> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn run(&self, given: Changes) -> Result<Changes> {
        let mut made = Vec::new();
        for (i, row) in rows(given.rows()).iter().enumerate() {
            made.extend((self.row)(row)?.map(|row| (row, given.weights().get(i))));
        }
        Ok(if made.is_empty() {
            Changes::empty(self.schema.clone())
        } else {
            changes(&self.schema, &made)
        })
    }

    fn is_fallible(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "row by row".into()
    }
}

/// A condition on pairs of rows.
pub struct Holds<F>(pub F);

impl<F> fmt::Debug for Holds<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holds")
    }
}

impl<F: Fn(&Row) -> Option<bool> + Send + Sync> Predicate for Holds<F> {
    fn evaluate(&self, given: &RecordBatch) -> Result<BooleanArray> {
        Ok(rows(given).iter().map(|row| (self.0)(row)).collect())
    }

    fn is_fallible(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "row by row".into()
    }
}

/// A plan that grows node by node.
#[derive(Default)]
pub struct Plan {
    nodes: Vec<Node>,
}

impl Plan {
    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn schema(&self, node: NodeId) -> SchemaRef {
        self.nodes[node].schema()
    }

    pub fn input(&mut self, collection: CollectionId, schema: &SchemaRef) -> NodeId {
        self.add(Node::Input {
            collection,
            schema: schema.clone(),
        })
    }

    pub fn constant(&mut self, schema: &SchemaRef, given: &[Row]) -> NodeId {
        self.add(Node::Constant {
            rows: Changes::insertions(batch(schema, given)),
        })
    }

    pub fn try_map(
        &mut self,
        input: NodeId,
        schema: &SchemaRef,
        row: impl Fn(&Row) -> Result<Option<Row>> + Send + Sync + 'static,
    ) -> NodeId {
        self.add(Node::Map {
            input,
            program: Arc::new(Rowwise {
                schema: schema.clone(),
                row,
            }),
        })
    }

    pub fn map(
        &mut self,
        input: NodeId,
        schema: &SchemaRef,
        row: impl Fn(&Row) -> Row + Send + Sync + 'static,
    ) -> NodeId {
        self.try_map(input, schema, move |given| Ok(Some(row(given))))
    }

    /// The columns at some positions.
    pub fn project(&mut self, input: NodeId, columns: &'static [usize]) -> NodeId {
        let schema = Arc::new(self.schema(input).project(columns).unwrap());
        self.map(input, &schema, |row| {
            columns.iter().map(|column| row[*column].clone()).collect()
        })
    }

    pub fn filter(&mut self, input: NodeId, keep: impl Fn(&Row) -> bool + Send + Sync + 'static) -> NodeId {
        self.try_map(
            input,
            &self.schema(input),
            move |row| Ok(keep(row).then(|| row.clone())),
        )
    }

    pub fn aggregate(
        &mut self,
        input: NodeId,
        keys: &[usize],
        calls: &[(AggregateFunction, Option<usize>, DataType)],
    ) -> NodeId {
        let input_schema = self.schema(input);
        let calls: Vec<AggregateCall> = calls
            .iter()
            .map(|(function, argument, output)| AggregateCall {
                function: *function,
                argument: *argument,
                filter: None,
                distinct: false,
                output: output.clone(),
                elements: elements_of(*function, *argument),
            })
            .collect();
        let made = calls
            .iter()
            .enumerate()
            .map(|(i, call)| Field::new(format!("a{i}"), call.output.clone(), true));
        let fields: Vec<Field> = keys
            .iter()
            .map(|key| input_schema.field(*key).clone())
            .chain(made)
            .collect();
        let (name, keys, schema) = (
            format!("state_{}", self.nodes.len()),
            keys.to_vec(),
            Arc::new(Schema::new(fields)),
        );
        self.add(Node::Aggregate(Aggregate {
            name,
            input,
            keys,
            calls,
            schema,
            input_schema,
        }))
    }

    pub fn join(
        &mut self,
        kind: JoinKind,
        (left, left_keys): (NodeId, &[usize]),
        (right, right_keys): (NodeId, &[usize]),
        residual: Option<Arc<dyn Predicate>>,
    ) -> NodeId {
        let (left_schema, right_schema) = (self.schema(left), self.schema(right));
        let right_fields = right_schema.fields().iter().filter(|_| kind.gives_pairs());
        let schema = Arc::new(Schema::new(
            left_schema
                .fields()
                .iter()
                .chain(right_fields)
                .cloned()
                .collect::<Vec<_>>(),
        ));
        self.add(Node::Join(Join {
            name: format!("state_{}", self.nodes.len()),
            left,
            right,
            left_keys: left_keys.to_vec(),
            right_keys: right_keys.to_vec(),
            null_equals_null: false,
            kind,
            residual,
            left_schema,
            right_schema,
            schema,
        }))
    }

    /// The rows with the `limit` greatest values of a column in each partition.
    pub fn greatest(&mut self, input: NodeId, partition: &[usize], column: usize, limit: u64) -> NodeId {
        let schema = self.schema(input);
        self.add(Node::TopN(TopN {
            name: format!("state_{}", self.nodes.len()),
            input,
            partition: partition.to_vec(),
            order: vec![(
                column,
                SortOptions {
                    descending: true,
                    nulls_first: false,
                },
            )],
            offset: 0,
            limit: Some(limit),
            row_number: false,
            input_schema: schema.clone(),
            schema,
        }))
    }

    pub fn union(&mut self, inputs: &[NodeId]) -> NodeId {
        let schema = self.schema(inputs[0]);
        self.add(Node::Union {
            inputs: inputs.to_vec(),
            schema,
        })
    }

    /// The plan of a view whose root is the last node.
    ///
    /// # Arguments
    /// - `key`: columns that have each value once; `None`: rows may repeat.
    pub fn view(self, name: &str, key: Option<&[usize]>) -> ViewPlan {
        let root = self.nodes.len() - 1;
        let table = TableSchema {
            name: name.into(),
            columns: self.nodes[root].schema(),
            key: key.unwrap_or_default().to_vec(),
            unique: key.is_some(),
        };
        ViewPlan {
            nodes: self.nodes,
            root,
            table,
        }
    }
}
