//! The dataflow IR: the contract between the planner (`query`) and the engine.
//!
//! A [`ViewPlan`] is a graph of [`Node`]s in topological order. Scalar work is opaque to the engine: the
//! planner hands in [`RowProgram`]s and [`Predicate`]s that work on whole batches. Stateful nodes carry a
//! stable name, made by the planner from the view's name and the node's structure, never from a position.
//!
//! # Not here
//! How nodes run ([`crate::kernel`], `dataflow`); how SQL becomes nodes (`query::lower`).

use crate::elements::has_order;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::{Changes, Error, Result, Spread, TableSchema};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Identifies a collection: a table, a source or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct CollectionId(pub u64);

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// Digits of decimals that no number of rows can sum up to more than 128 bits.
const ALWAYS_SUMMED_DIGITS: u8 = 19;

/// Position of a node in its plan.
pub type NodeId = usize;

/// Stateless work on batches: any number of filters and projections fused into one pass.
pub trait RowProgram: std::any::Any + Send + Sync + fmt::Debug {
    /// Columns of the result.
    fn schema(&self) -> SchemaRef;

    /// Whether a row can make it fail; a program of columns and comparisons cannot.
    fn is_fallible(&self) -> bool;

    /// Turns changes into changes; weights follow their rows.
    ///
    /// # Errors
    /// An expression failed on a row (division by zero, overflow, a cast). It fails on a batch if and only if it fails
    /// on one of its rows alone.
    fn run(&self, changes: Changes) -> Result<Changes>;

    /// The names that a user knows the columns of its input by, empty for those that he does not know; none: their own.
    fn input_names(&self) -> &[String] {
        &[]
    }

    /// One line for EXPLAIN, the same in every process.
    fn describe(&self) -> String;
}

/// A condition on whole batches.
pub trait Predicate: Send + Sync + fmt::Debug {
    /// Whether a row can make it fail.
    fn is_fallible(&self) -> bool;

    /// One value per row; NULL counts as false.
    fn evaluate(&self, rows: &RecordBatch) -> Result<BooleanArray>;

    /// The names that a user knows the columns of its input by, empty for those that he does not know; none: their own.
    fn input_names(&self) -> &[String] {
        &[]
    }

    /// One line for EXPLAIN, the same in every process.
    fn describe(&self) -> String;
}

/// A view as a graph of nodes.
#[derive(Clone, Debug)]
pub struct ViewPlan {
    /// Nodes; a node's inputs stand before it. A node may be the input of several.
    pub nodes: Vec<Node>,
    /// The node whose output is the view.
    pub root: NodeId,
    /// Columns, key and name of the view's table.
    pub table: TableSchema,
}

/// One node.
#[derive(Clone, Debug)]
pub enum Node {
    /// All columns of a collection.
    Input {
        /// Which one.
        collection: CollectionId,
        /// Its columns.
        schema: SchemaRef,
    },
    /// Rows that are there from the start and never change.
    Constant {
        /// The rows.
        rows: Changes,
    },
    /// Filters and projections.
    Map {
        /// The node it reads.
        input: NodeId,
        /// What it does.
        program: Arc<dyn RowProgram>,
    },
    /// Grouped or global aggregation; with no calls, DISTINCT.
    Aggregate(Aggregate),
    /// A join of two inputs.
    Join(Join),
    /// The first rows of each partition in an order.
    TopN(TopN),
    /// All rows of all inputs.
    Union {
        /// The nodes it reads; their schemas agree in types.
        inputs: Vec<NodeId>,
        /// Columns of the result.
        schema: SchemaRef,
    },
}

/// Grouped aggregation.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Stable name of its state table.
    pub name: String,
    /// The node it reads.
    pub input: NodeId,
    /// Columns of the input that make the group.
    pub keys: Vec<usize>,
    /// Aggregates, in the order of the result columns after the keys.
    pub calls: Vec<AggregateCall>,
    /// Columns of the result: keys, then one per call.
    pub schema: SchemaRef,
    /// Columns of the input.
    pub input_schema: SchemaRef,
}

/// One aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// What is computed.
    pub function: AggregateFunction,
    /// Input column it is computed of; `None` only for `COUNT(*)`.
    pub argument: Option<usize>,
    /// Boolean input column: only rows where it is true count.
    pub filter: Option<usize>,
    /// Each different value counts once.
    pub distinct: bool,
    /// Type of the result.
    pub output: DataType,
    /// What is kept of a row, where that is more than the argument.
    pub elements: Option<Elements>,
}

/// What ARRAY_AGG, STRING_AGG and a COUNT of different rows keep of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// Input columns, in the order that decides which element comes first. The value is among them, so that elements
    /// that tie look the same.
    pub columns: Vec<(usize, SortOptions)>,
    /// Which of `columns` is the value that is shown; a COUNT shows none.
    pub value: usize,
    /// What stands between texts.
    pub delimiter: Delimiter,
}

/// What stands before a text that STRING_AGG adds to others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Delimiter {
    /// The same everywhere.
    Text(String),
    /// One of the columns of [`Elements`].
    Column(usize),
}

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// Rows, or values that are not NULL.
    Count,
    /// Sum of the values that are not NULL; NULL if there are none.
    Sum,
    /// Mean of the values that are not NULL; NULL if there are none.
    Avg,
    /// Least value; NULL if there are none.
    Min,
    /// Greatest value; NULL if there are none.
    Max,
    /// Variance of a sample; NULL for fewer than two values.
    VarSamp,
    /// Variance of a population; NULL if there are no values.
    VarPop,
    /// Standard deviation of a sample; NULL for fewer than two values.
    StddevSamp,
    /// Standard deviation of a population; NULL if there are no values.
    StddevPop,
    /// Array of the values, NULLs too; NULL if there are no rows.
    ArrayAgg,
    /// The texts that are not NULL in one; NULL if there are none.
    StringAgg,
}

impl AggregateFunction {
    /// Its SQL name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Avg => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::VarSamp => "var_samp",
            AggregateFunction::VarPop => "var_pop",
            AggregateFunction::StddevSamp => "stddev_samp",
            AggregateFunction::StddevPop => "stddev_pop",
            AggregateFunction::ArrayAgg => "array_agg",
            AggregateFunction::StringAgg => "string_agg",
        }
    }

    /// What it reads from sums of squares, if that is what it computes.
    pub fn spread(self) -> Option<Spread> {
        let (sample, root) = match self {
            AggregateFunction::VarSamp => (true, false),
            AggregateFunction::VarPop => (false, false),
            AggregateFunction::StddevSamp => (true, true),
            AggregateFunction::StddevPop => (false, true),
            _ => return None,
        };
        Some(Spread { sample, root })
    }
}

/// Which rows of a join come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// Pairs, and left rows without a match, padded with NULLs.
    Left,
    /// Pairs, and right rows without a match, padded with NULLs.
    Right,
    /// Pairs, and rows of both sides without a match, padded with NULLs.
    Full,
    /// Left rows with a match, once.
    Semi,
    /// Left rows without a match.
    Anti,
}

impl JoinKind {
    /// Whether left rows without a match come out padded.
    pub fn pads_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether right rows without a match come out padded.
    pub fn pads_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether pairs come out.
    pub fn gives_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

/// A join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Stable name; its state tables are `<name>_left` and `<name>_right`.
    pub name: String,
    /// Left input.
    pub left: NodeId,
    /// Right input.
    pub right: NodeId,
    /// Equality columns of the left input; may be empty (cross join).
    pub left_keys: Vec<usize>,
    /// Equality columns of the right input, as many and of the same types.
    pub right_keys: Vec<usize>,
    /// Whether a NULL key equals a NULL key (`IS NOT DISTINCT FROM`).
    pub null_equals_null: bool,
    /// Which rows come out.
    pub kind: JoinKind,
    /// Further condition on pairs, over the left columns followed by the right columns.
    pub residual: Option<Arc<dyn Predicate>>,
    /// Columns of the left input.
    pub left_schema: SchemaRef,
    /// Columns of the right input.
    pub right_schema: SchemaRef,
    /// Columns of the result: left then right; only left for semi and anti joins.
    pub schema: SchemaRef,
}

/// The first rows of each partition.
#[derive(Clone, Debug)]
pub struct TopN {
    /// Stable name of its state table.
    pub name: String,
    /// The node it reads.
    pub input: NodeId,
    /// Partition columns; empty: the whole input is one partition.
    pub partition: Vec<usize>,
    /// Order inside a partition; ties are broken by the whole row, so the answer is one.
    pub order: Vec<(usize, SortOptions)>,
    /// Rows to leave out at the start.
    pub offset: u64,
    /// Rows to keep after those; `None`: all.
    pub limit: Option<u64>,
    /// Add a column with the 1-based position in the partition (`ROW_NUMBER()`).
    pub row_number: bool,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// Columns of the result: the input's, then the row number if asked for.
    pub schema: SchemaRef,
}

impl ViewPlan {
    /// The table of the errors of rows that operators could not work on: one row for each, as often as the row. `None`:
    /// no row can make an operator fail.
    pub fn errors_table(&self) -> Option<TableSchema> {
        self.nodes.iter().any(Node::is_fallible).then(|| TableSchema {
            name: format!("{}_errors", self.table.name),
            columns: row_error_columns(),
            key: Vec::new(),
            unique: false,
        })
    }

    /// The collections that it reads, once for each node that does.
    pub fn reads(&self) -> impl Iterator<Item = CollectionId> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Input { collection, .. } => Some(*collection),
            _ => None,
        })
    }

    /// What it is made of, a line for each node: two plans of the same lines have the same state.
    pub fn outline(&self) -> Vec<String> {
        let line = |(id, node): (usize, &Node)| {
            let inputs: Vec<String> = node.inputs().iter().map(|input| format!("#{input}")).collect();
            format!("#{id} {} [{}] {}", node.kind(), inputs.join(" "), node.outline())
        };
        let mut lines: Vec<String> = self.nodes.iter().enumerate().map(line).collect();
        lines.push(format!("#{} as {}", self.root, outline_of(&self.table)));
        lines
    }

    /// Refuses a plan that no worker could build.
    ///
    /// # Errors
    /// `Bug`: an aggregate has no argument, a column that its input has not, or elements without an order.
    pub fn check(&self) -> Result<()> {
        let aggregates = self.nodes.iter().filter_map(|node| match node {
            Node::Aggregate(aggregate) => Some(aggregate),
            _ => None,
        });
        for aggregate in aggregates {
            let width = aggregate.input_schema.fields().len();
            let calls = &aggregate.calls;
            let columns = calls.iter().flat_map(|call| [call.argument, call.filter]).flatten();
            let elements = calls.iter().filter_map(|call| call.elements.as_ref());
            let elements: Vec<usize> = elements
                .flat_map(|e| e.columns.iter().map(|(column, _)| *column))
                .collect();
            let mut fields = elements
                .iter()
                .filter_map(|column| aggregate.input_schema.fields().get(*column));
            let all_ordered = fields.all(|field| has_order(field.data_type()));
            let mut columns = columns
                .chain(elements.iter().copied())
                .chain(aggregate.keys.iter().copied());
            if !all_ordered || columns.any(|column| column >= width) || !calls.iter().all(AggregateCall::is_whole) {
                return Err(Error::bug(format!(
                    "aggregate {} was planned without its columns",
                    aggregate.name
                )));
            }
        }
        Ok(())
    }
}

/// Columns of a view's errors: the operator, the error's code, SQLSTATE and text, and the operator's input row as JSON.
pub fn row_error_columns() -> SchemaRef {
    let names = ["operator", "code", "sqlstate", "reason", "row"];
    let fields = names.map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.to_vec()))
}

impl Node {
    /// Whether a row can make the operator fail.
    pub fn is_fallible(&self) -> bool {
        match self {
            Node::Map { program, .. } => program.is_fallible(),
            Node::Join(join) => join.residual.as_ref().is_some_and(|residual| residual.is_fallible()),
            Node::Aggregate(aggregate) => aggregate
                .calls
                .iter()
                .any(|call| call.is_fallible(&aggregate.input_schema)),
            Node::Input { .. } | Node::Constant { .. } | Node::TopN(_) | Node::Union { .. } => false,
        }
    }

    /// Columns of the node's output.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Node::Input { schema, .. } | Node::Union { schema, .. } => schema.clone(),
            Node::Constant { rows } => rows.schema(),
            Node::Map { program, .. } => program.schema(),
            Node::Aggregate(node) => node.schema.clone(),
            Node::Join(node) => node.schema.clone(),
            Node::TopN(node) => node.schema.clone(),
        }
    }

    /// The nodes it reads.
    pub fn inputs(&self) -> Vec<NodeId> {
        match self {
            Node::Input { .. } | Node::Constant { .. } => Vec::new(),
            Node::Map { input, .. } => vec![*input],
            Node::Aggregate(node) => vec![node.input],
            Node::TopN(node) => vec![node.input],
            Node::Join(node) => vec![node.left, node.right],
            Node::Union { inputs, .. } => inputs.clone(),
        }
    }

    /// What it is called in EXPLAIN and in the catalog.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Input { .. } => "input",
            Node::Constant { .. } => "constant",
            Node::Map { .. } => "map",
            Node::Aggregate(node) if node.calls.is_empty() => "distinct",
            Node::Aggregate(_) => "aggregate",
            Node::Join(_) => "join",
            Node::TopN(_) => "top_n",
            Node::Union { .. } => "union",
        }
    }

    /// What it is, but for which nodes it reads.
    pub(crate) fn shape(&self) -> String {
        format!("{} {}", self.kind(), self.outline())
    }

    /// Whether all that it has given can be told from its state tables. (Rows without a key pass an outer join and leave nothing
    /// there.)
    pub(crate) fn can_stand(&self) -> bool {
        let has_keys = |schema: &SchemaRef, keys: &[usize]| keys.iter().all(|key| !schema.field(*key).is_nullable());
        match self {
            Node::Aggregate(_) | Node::TopN(_) => true,
            Node::Join(join) => {
                let gives_left = join.kind.pads_left() || join.kind == JoinKind::Anti;
                join.null_equals_null
                    || (!gives_left || has_keys(&join.left_schema, &join.left_keys))
                        && (!join.kind.pads_right() || has_keys(&join.right_schema, &join.right_keys))
            }
            _ => false,
        }
    }

    /// All that decides what state it has of its inputs.
    fn outline(&self) -> String {
        match self {
            Node::Input { collection, schema } => format!("{collection} {schema}"),
            Node::Constant { rows } => format!("{:?} {:?}", rows.rows(), rows.weights()),
            Node::Map { program, .. } => program.describe(),
            Node::Aggregate(Aggregate { keys, calls, .. }) => {
                format!("by {keys:?}: {calls:?}; {}", self.outline_of_state())
            }
            Node::Join(join) => {
                let residual = join.residual.as_ref().map(|residual| residual.describe());
                let Join {
                    kind,
                    left_keys,
                    right_keys,
                    null_equals_null,
                    ..
                } = join;
                let keys = format!("{left_keys:?} = {right_keys:?}, NULL = NULL: {null_equals_null}");
                format!("{kind:?} on {keys}, if {residual:?}; {}", self.outline_of_state())
            }
            Node::TopN(TopN {
                partition,
                order,
                offset,
                limit,
                row_number,
                ..
            }) => {
                let which = format!("{offset} to {limit:?}, numbered: {row_number}");
                format!("by {partition:?} in {order:?}: {which}; {}", self.outline_of_state())
            }
            Node::Union { schema, .. } => schema.to_string(),
        }
    }

    fn outline_of_state(&self) -> String {
        let tables: Vec<String> = self.state_tables().iter().map(outline_of).collect();
        tables.join("; ")
    }

    /// For each of its inputs, the columns that make the key of its state.
    pub(crate) fn key_columns(&self) -> Vec<Vec<usize>> {
        match self {
            Node::Aggregate(node) => vec![node.keys.clone()],
            Node::Join(node) => vec![node.left_keys.clone(), node.right_keys.clone()],
            Node::TopN(node) => vec![node.partition.clone()],
            _ => Vec::new(),
        }
    }

    /// The node's state tables: names and typed columns, in the order in which the running operator numbers them.
    pub fn state_tables(&self) -> Vec<TableSchema> {
        match self {
            Node::Aggregate(node) => aggregate_tables(node),
            Node::Join(node) => vec![
                row_table(format!("{}_left", node.name), &node.left_schema, &node.left_keys),
                row_table(format!("{}_right", node.name), &node.right_schema, &node.right_keys),
            ],
            Node::TopN(node) => vec![row_table(node.name.clone(), &node.input_schema, &node.partition)],
            _ => Vec::new(),
        }
    }
}

fn outline_of(table: &TableSchema) -> String {
    let (name, key, columns) = (&table.name, &table.key, &table.columns);
    format!("{name} {columns} by {key:?}, unique: {}", table.unique)
}

/// State of whole rows: the row's columns and its multiplicity.
fn row_table(name: String, schema: &SchemaRef, key: &[usize]) -> TableSchema {
    let of_row = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true));
    let multiplicity = Field::new("multiplicity", DataType::Int64, false);
    let fields = unique_fields(of_row.chain([multiplicity]));
    TableSchema {
        name,
        columns: Arc::new(Schema::new(fields)),
        key: key.to_vec(),
        unique: false,
    }
}

fn aggregate_tables(node: &Aggregate) -> Vec<TableSchema> {
    let keys: Vec<Field> = node
        .schema
        .fields()
        .iter()
        .take(node.keys.len())
        .map(|f| f.as_ref().clone())
        .collect();
    let mut fields = keys.clone();
    fields.push(Field::new("group_rows", DataType::Int64, false));
    for call in &node.calls {
        fields.extend(call.accumulator_fields(&call.label(&node.input_schema), &node.input_schema));
    }
    let key: Vec<usize> = (0..node.keys.len()).collect();
    let columns = Arc::new(Schema::new(unique_fields(fields.into_iter())));
    let mut tables = vec![TableSchema {
        name: node.name.clone(),
        columns,
        key: key.clone(),
        unique: true,
    }];
    for call in &node.calls {
        if call.keeps_values() {
            let mut fields = keys.clone();
            fields.extend(call.kept_fields(&node.input_schema));
            fields.push(Field::new("multiplicity", DataType::Int64, false));
            let columns = Arc::new(Schema::new(unique_fields(fields.into_iter())));
            let name = format!("{}_{}_values", node.name, call.label(&node.input_schema));
            tables.push(TableSchema {
                name: free_name(&tables, name),
                columns,
                key: key.clone(),
                unique: false,
            });
        }
    }
    tables
}

/// The name, numbered if a table has it: calls over one column can differ in FILTER or ORDER BY alone.
fn free_name(tables: &[TableSchema], name: String) -> String {
    let is_free = |name: &String| tables.iter().all(|table| table.name != *name);
    if is_free(&name) {
        return name;
    }
    let mut numbered = (2u64..).map(|number| format!("{name}_{number}"));
    numbered.find(is_free).unwrap_or_default()
}

/// Makes names unique by numbering repeats, so that a state table can be queried.
pub(crate) fn unique_fields(fields: impl Iterator<Item = Field>) -> Vec<Field> {
    let fields: Vec<Field> = fields.collect();
    let given: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
    let mut taken = HashSet::new();
    let named = fields.into_iter().map(|field| {
        if taken.insert(field.name().clone()) {
            return field;
        }
        // A number that makes another column's name is passed over.
        let mut numbered = (2u64..).map(|number| format!("{}_{number}", field.name()));
        let name = numbered.find(|name| !given.contains(name) && !taken.contains(name));
        let name = name.unwrap_or_default();
        taken.insert(name.clone());
        field.with_name(name)
    });
    named.collect()
}

impl AggregateCall {
    /// Whether a group can have values that it has no result for: sums beyond the type's range.
    fn is_fallible(&self, input: &SchemaRef) -> bool {
        let argument = self.argument.map(|argument| input.field(argument).data_type());
        let of_integers = argument.is_some_and(DataType::is_integer);
        match self.function {
            AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max => false,
            // No number of rows that can be stored takes a sum of integers out of NUMERIC's range.
            AggregateFunction::Sum => !(of_integers && matches!(self.output, DataType::Decimal128(38, 0))),
            AggregateFunction::Avg => !of_integers,
            _ => true,
        }
    }

    /// Whether it keeps each value with its multiplicity: to follow deletions of extremes, or to count values once.
    pub fn keeps_values(&self) -> bool {
        self.distinct
            || self.elements.is_some()
            || matches!(self.function, AggregateFunction::Min | AggregateFunction::Max)
    }

    /// Whether it has the columns that its function needs.
    fn is_whole(&self) -> bool {
        match (self.function, &self.elements) {
            (AggregateFunction::Count, Some(elements)) => self.distinct && !elements.columns.is_empty(),
            (AggregateFunction::ArrayAgg | AggregateFunction::StringAgg, elements) => {
                let has = |place: usize| elements.as_ref().is_some_and(|e| place < e.columns.len());
                elements.as_ref().is_some_and(|elements| match elements.delimiter {
                    Delimiter::Text(_) => has(elements.value),
                    Delimiter::Column(place) => has(elements.value) && has(place),
                })
            }
            (_, Some(_)) => false,
            (AggregateFunction::Count, None) => self.argument.is_some() || !self.distinct,
            (_, None) => self.argument.is_some(),
        }
    }

    /// Columns of a kept value in its state table.
    fn kept_fields(&self, input: &SchemaRef) -> Vec<Field> {
        let typed = |name: &str, column: usize| Field::new(name, input.field(column).data_type().clone(), true);
        let Some(elements) = &self.elements else {
            return self
                .argument
                .map(|argument| typed("value", argument))
                .into_iter()
                .collect();
        };
        let is_count = self.function == AggregateFunction::Count;
        let named = |(place, (column, _)): (usize, &(usize, SortOptions))| match &elements.delimiter {
            _ if is_count || place == elements.value => typed("value", *column),
            Delimiter::Column(delimiter) if place == *delimiter => typed("delimiter", *column),
            _ => typed("order", *column),
        };
        elements.columns.iter().enumerate().map(named).collect()
    }

    /// What its accumulator is called in the state table: the function, and the column it is over.
    fn label(&self, input: &SchemaRef) -> String {
        let distinct = if self.distinct { "_distinct" } else { "" };
        match self.argument {
            None if self.elements.is_some() => format!("{}{distinct}_row", self.function.name()),
            None => self.function.name().to_string(),
            Some(argument) => format!("{}{distinct}_{}", self.function.name(), input.field(argument).name()),
        }
    }

    /// Whether an exact sum can be one that no column of numbers holds: of numbers of so many digits that few of them are enough.
    pub(crate) fn may_exceed(&self, argument: Option<&DataType>) -> bool {
        matches!(argument, Some(DataType::Decimal128(precision, _)) if *precision > ALWAYS_SUMMED_DIGITS)
    }

    /// Columns of its accumulator in the group's state table.
    fn accumulator_fields(&self, name: &str, input: &SchemaRef) -> Vec<Field> {
        let argument = self.argument.map(|argument| input.field(argument).data_type().clone());
        match (self.function, argument) {
            (AggregateFunction::Count, _) => vec![Field::new(name, DataType::Int64, false)],
            // Their elements are the state.
            (AggregateFunction::ArrayAgg | AggregateFunction::StringAgg, _) => Vec::new(),
            (function, _) if function.spread().is_some() => vec![
                Field::new(format!("{name}_sum"), DataType::Float64, false),
                Field::new(format!("{name}_squares"), DataType::Float64, false),
                Field::new(format!("{name}_exact"), DataType::Binary, false),
                Field::new(format!("{name}_count"), DataType::Int64, false),
            ],
            (AggregateFunction::Min | AggregateFunction::Max, _) => vec![Field::new(name, self.output.clone(), true)],
            (AggregateFunction::Sum | AggregateFunction::Avg, Some(DataType::Float32 | DataType::Float64)) => vec![
                Field::new(format!("{name}_sum"), DataType::Float64, false),
                Field::new(format!("{name}_exact"), DataType::Binary, false),
                Field::new(format!("{name}_count"), DataType::Int64, false),
            ],
            (_, argument) => {
                let scale = match argument {
                    Some(DataType::Decimal128(_, scale)) => scale,
                    _ => 0,
                };
                let sum = Field::new(format!("{name}_sum"), DataType::Decimal128(38, scale), true);
                let exact = Field::new(format!("{name}_exact"), DataType::Binary, true);
                let exact = self.may_exceed(argument.as_ref()).then_some(exact);
                let count = Field::new(format!("{name}_count"), DataType::Int64, false);
                [Some(sum), exact, Some(count)].into_iter().flatten().collect()
            }
        }
    }
}
