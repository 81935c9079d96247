//! Drives a kernel epoch by epoch, as the dataflow does, and holds it to the rules of every kernel.
//!
//! Beside it goes a second one, which is made anew after every epoch of what the first one's state tables say: it must give and hold
//! the same ever after. Copies of the state tables are kept by what has changed alone. A third one stands from that state, and must
//! give all that the first one has given. Others have memory for nothing, or for little, and must give and hold the same.

use crate::kernel::{AggregateKernel, JoinKernel, Kernel, SpillKernel, TopNKernel, state_identity};
use crate::plan::{Aggregate, Join, Node, TopN};
use crate::rows::{Bag, Row, add, add_changes, bag, rows};
use arrow::array::{ArrayRef, RecordBatch};
use cenote_statestore::spill::{Map, Spill};
use cenote_statestore::{Changes, Epoch, Result, TableSchema};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Drive<K> {
    pub(super) kernel: K,
    again: Option<K>,
    make: Rc<dyn Fn() -> K>,
    node: Node,
    tables: Vec<TableSchema>,
    copies: Vec<Vec<Row>>,
    /// With little memory, and copies of their state tables.
    spilling: Vec<(SpillKernel, Vec<Vec<Row>>)>,
    /// All output so far, added up.
    pub(super) contents: Bag,
    pub(super) epoch: u64,
}

impl Drive<AggregateKernel> {
    pub(super) fn aggregate(node: &Aggregate, gives_empty_row: bool) -> Drive<AggregateKernel> {
        let (whole, node) = (Node::Aggregate(node.clone()), node.clone());
        Drive::new(whole, move || AggregateKernel::new(&node, gives_empty_row))
    }
}

impl Drive<JoinKernel> {
    pub(super) fn join(node: &Join) -> Drive<JoinKernel> {
        let (whole, node) = (Node::Join(node.clone()), node.clone());
        Drive::new(whole, move || JoinKernel::new(&node))
    }
}

impl Drive<TopNKernel> {
    pub(super) fn top_n(node: &TopN) -> Drive<TopNKernel> {
        let (whole, node) = (Node::TopN(node.clone()), node.clone());
        Drive::new(whole, move || TopNKernel::new(&node).unwrap())
    }
}

/// Bytes of memory that operators have which spill.
const LITTLE: [usize; 2] = [0, 4096];

impl<K: Kernel + 'static> Drive<K> {
    fn new(node: Node, make: impl Fn() -> K + 'static) -> Drive<K> {
        let (tables, make) = (node.state_tables(), Rc::new(make));
        let copies = vec![Vec::new(); tables.len()];
        let mut drive = Drive {
            node,
            kernel: make(),
            again: None,
            make,
            copies: copies.clone(),
            spilling: Vec::new(),
            tables,
            contents: Bag::new(),
            epoch: 0,
        };
        if drive.tables.iter().all(|table| !table.key.is_empty()) {
            let spilling = LITTLE.map(|bytes| (drive.spilling(bytes), copies.clone()));
            drive.spilling = spilling.into();
        }
        drive
    }

    /// An operator with little memory.
    fn spilling(&self, bytes: usize) -> SpillKernel {
        let (make, spill) = (self.make.clone(), Spill::new(Arc::new(Map::default()), bytes));
        let make = Box::new(move || Ok(Box::new(make()) as Box<dyn Kernel>));
        SpillKernel::new(make, self.tables.clone(), self.node.key_columns(), &spill).unwrap()
    }

    /// Runs one epoch.
    ///
    /// # Returns
    /// Its output, which is checked to be net: no row twice with different signs, nothing taken away that is not there.
    pub(super) fn epoch(&mut self, pushes: &[(usize, Changes)]) -> Result<Bag> {
        let mut output = Vec::new();
        self.epoch += 1;
        for (input, changes) in pushes {
            self.kernel.push(*input, changes, &mut output)?;
        }
        self.kernel.finish(Epoch(self.epoch), &mut output)?;
        let (mut plus, mut minus) = (Bag::new(), Bag::new());
        for changes in &output {
            for (row, cells) in rows(changes.rows()).iter().enumerate() {
                let weight = changes.weights().get(row);
                assert_ne!(weight, 0, "epoch {} gives {cells:?} no times", self.epoch);
                add(if weight > 0 { &mut plus } else { &mut minus }, cells, weight);
            }
        }
        for row in plus.keys() {
            assert!(
                !minus.contains_key(row),
                "epoch {} both gives and takes back {row:?}",
                self.epoch
            );
        }
        output
            .iter()
            .for_each(|changes| add_changes(&mut self.contents, changes));
        for (row, count) in &self.contents {
            assert!(
                *count > 0,
                "after epoch {} the output holds {row:?} {count} times",
                self.epoch
            );
        }
        plus.extend(minus);
        if let Some(again) = self.again.take() {
            self.compare(again, pushes, &output);
        }
        self.again = Some(self.made_anew());
        if self.node.can_stand() {
            self.stand();
        }
        self.spill(pushes, &output)?;
        // Some changes are taken with those of the next epochs.
        if self.epoch % 3 != 2 {
            copy_changes(&mut self.kernel, &self.tables, &mut self.copies, self.epoch);
            for (kernel, copies) in &mut self.spilling {
                copy_changes(kernel, &self.tables, copies, self.epoch);
            }
            if self.epoch.is_multiple_of(5) {
                self.start_spilling_again();
            }
        }
        Ok(plus)
    }

    /// Those that have little memory are made anew, and go on telling what changes.
    fn start_spilling_again(&mut self) {
        for (number, memory) in LITTLE.into_iter().enumerate().take(self.spilling.len()) {
            let mut again = self.spilling(memory);
            self.give_state(&mut again);
            (0..self.tables.len()).for_each(|table| again.note_changes(table));
            self.spilling[number].0 = again;
        }
    }

    /// Those that have little memory give the same, and hold the same.
    fn spill(&mut self, pushes: &[(usize, Changes)], output: &[Changes]) -> Result<()> {
        let (tables, of) = (&self.tables, &self.kernel);
        let held = || (0..tables.len()).map(|table| of.read(table, None).unwrap());
        let held: Vec<(Bag, Vec<ArrayRef>)> = match self.spilling.is_empty() {
            true => Vec::new(),
            false => held()
                .zip(tables)
                .map(|(parts, table)| (bag(&parts), keys_of(table, &parts)))
                .collect(),
        };
        for (kernel, _) in &mut self.spilling {
            let mut given = Vec::new();
            for (input, changes) in pushes {
                kernel.push(*input, changes, &mut given)?;
            }
            kernel.finish(Epoch(self.epoch), &mut given)?;
            assert_eq!(sum(&given), sum(output), "epoch {} with little memory", self.epoch);
            for (table, (wanted, keys)) in held.iter().enumerate() {
                let there = bag(&kernel.read(table, None).unwrap());
                assert_eq!(
                    there, *wanted,
                    "table {table} with little memory after epoch {}",
                    self.epoch
                );
                assert_eq!(kernel.size(table).0, of.size(table).0);
                let there = bag(&kernel.read(table, Some(keys)).unwrap());
                assert_eq!(there, bag(&of.read(table, Some(keys)).unwrap()));
            }
        }
        Ok(())
    }

    fn compare(&self, mut again: K, pushes: &[(usize, Changes)], output: &[Changes]) {
        let mut given = Vec::new();
        for (input, changes) in pushes {
            again.push(*input, changes, &mut given).unwrap();
        }
        again.finish(Epoch(self.epoch), &mut given).unwrap();
        assert_eq!(sum(&given), sum(output), "epoch {} after a new start", self.epoch);
        for table in 0..self.tables.len() {
            let (there, wanted) = (again.read(table, None).unwrap(), self.state(table, None));
            assert_eq!(
                bag(&there),
                wanted,
                "table {table} after a new start before epoch {}",
                self.epoch
            );
            assert_eq!(again.size(table).0, self.kernel.size(table).0);
        }
    }

    /// A kernel that stands from the state of this one gives at once all that this one has given.
    fn stand(&self) {
        let mut kernel = (self.make)();
        let tables = (0..self.tables.len()).map(|table| self.kernel.read(table, None).unwrap());
        let mut given = Vec::new();
        for (input, changes) in kernel.stand(&tables.collect::<Vec<_>>()).unwrap() {
            kernel.push(input, &changes, &mut given).unwrap();
        }
        kernel.finish(Epoch(self.epoch), &mut given).unwrap();
        let mut contents = Bag::new();
        given.iter().for_each(|changes| add_changes(&mut contents, changes));
        assert_eq!(contents, self.contents, "what stands after epoch {}", self.epoch);
        for table in 0..self.tables.len() {
            assert_eq!(bag(&kernel.read(table, None).unwrap()), self.state(table, None));
        }
    }

    /// A kernel that has been given the state of this one, a few rows at a time.
    fn made_anew(&self) -> K {
        let mut again = (self.make)();
        self.give_state(&mut again);
        again
    }

    fn give_state(&self, again: &mut dyn Kernel) {
        again.await_state(1 << 20);
        for table in 0..self.tables.len() {
            for rows in self.kernel.read(table, None).unwrap() {
                again.reserve(table, rows.num_rows());
                again.load(table, &rows.slice(0, 0)).unwrap();
                for from in (0..rows.num_rows()).step_by(3) {
                    let few = rows.slice(from, 3.min(rows.num_rows() - from));
                    again.load(table, &few).unwrap();
                }
            }
        }
    }

    /// A state table, all of it or the rows of some keys.
    pub(super) fn state(&self, table: usize, keys: Option<&[ArrayRef]>) -> Bag {
        bag(&self.kernel.read(table, keys).unwrap())
    }

    /// Rows of the state tables `0..tables`.
    pub(super) fn state_rows(&self, tables: usize) -> Vec<u64> {
        (0..tables).map(|table| self.kernel.size(table).0).collect()
    }
}

fn sum(output: &[Changes]) -> Bag {
    let mut sum = Bag::new();
    output.iter().for_each(|changes| add_changes(&mut sum, changes));
    sum
}

/// Keys of the first rows of a table, each once.
fn keys_of(table: &TableSchema, parts: &[RecordBatch]) -> Vec<ArrayRef> {
    let rows = arrow::compute::concat_batches(&table.columns, parts).unwrap();
    let keys = rows.project(&table.key).unwrap();
    let keys = keys.slice(0, keys.num_rows().min(20));
    let names = self::rows(&keys);
    let is_first = |row: &u32| !names[..*row as usize].contains(&names[*row as usize]);
    let first: Vec<u32> = (0..keys.num_rows() as u32).filter(is_first).take(5).collect();
    let keys = arrow::compute::take_record_batch(&keys, &arrow::array::UInt32Array::from(first)).unwrap();
    keys.columns().to_vec()
}

/// Keeps copies of state tables by what changes of them.
fn copy_changes(kernel: &mut dyn Kernel, tables: &[TableSchema], copies: &mut [Vec<Row>], epoch: u64) {
    for (number, table) in tables.iter().enumerate() {
        let identity = state_identity(table);
        let of = |row: &Row| -> Row { identity.iter().map(|column| row[*column].clone()).collect() };
        let copy = &mut copies[number];
        if epoch == 1 {
            kernel.note_changes(number);
            let all = kernel.read_later(number).unwrap();
            *copy = all.flat_map(|part| rows(&part.unwrap())).collect();
            continue;
        }
        let changes = kernel.take_changes(number).unwrap();
        let there: Vec<Row> = changes.there.iter().flat_map(rows).collect();
        let gone: Vec<Row> = changes.gone.iter().flat_map(rows).collect();
        let count = there.len() + gone.len();
        let named: BTreeSet<Row> = there.iter().map(of).chain(gone).collect();
        assert_eq!(named.len(), count, "changes of table {number} name a row twice");
        copy.retain(|row| !named.contains(&of(row)));
        copy.extend(there);
        let mut held: Vec<Row> = kernel.read(number, None).unwrap().iter().flat_map(rows).collect();
        held.sort();
        copy.sort();
        assert_eq!(*copy, held, "table {number} by its changes, after epoch {epoch}");
    }
}
