//! Joins of every kind on equality keys with an optional further condition.
//!
//! # Rules kept here
//! Each push is one exact step of the product rule: changes of one side meet the whole state of the other, then
//! join their own side's state. With each row of a side that can come out unmatched lies the number of rows that
//! match it; when that number leaves or reaches zero the padded (or bare) row is taken back or given.
//!
//! The output of an epoch is net, but for one of very many rows: its insertions are given as they are found. Deletions, which may
//! take some of them back, wait for the end of the epoch and come behind them.
//!
//! Rows whose key is NULL match nothing (unless NULL equals NULL is asked for): they pass through without state.
//!
//! # Source
//! The product rule of incremental view maintenance: Gupta, Mumick, Subrahmanian, "Maintaining Views
//! Incrementally", SIGMOD 1993.

mod keys;
mod lists;
mod side;

use super::Kernel;
use super::changed::StateChanges;
use super::load::counted_rows;
use crate::plan::{Join, JoinKind, Node, Predicate};
use crate::row_errors::RowErrors;
use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{not, take};
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::{Changes, Epoch, Result, RowStore, RowView, TableSchema, Weights, hash_rows};
use keys::{Keys, NO_KEY};
use side::{Incoming, Outcome, Side};
use std::sync::Arc;

/// Rows that are looked for, met and joined to their side at once.
const ROWS_PER_BLOCK: usize = 1024;

/// Pairs gathered at once.
const PAIRS_MAX: usize = 64 * 1024;

/// Rows of output that wait for the end of an epoch without deletions.
const WAITING_MAX: usize = 32 * 1024;

const LEFT: usize = 0;

/// State and logic of one join on one worker.
pub struct JoinKernel {
    kind: JoinKind,
    null_equals_null: bool,
    residual: Option<Arc<dyn Predicate>>,
    schema: SchemaRef,
    pair_schema: SchemaRef,
    keys: Keys,
    sides: [Side; 2],
    tables: Vec<TableSchema>,
    mixed_signs: bool,
    pending: Vec<Changes>,
    /// Rows in `pending`.
    waiting: usize,
    /// Deletions of an epoch whose insertions have been given.
    deletions: Vec<Changes>,
    /// Pairs that the residual condition failed on; they match as little as those that do not satisfy it.
    errors: RowErrors,
    /// Whether rows are state that comes back, and give nothing.
    is_loading: bool,
}

/// Some rows of a push.
struct Push<'a> {
    input: usize,
    changes: &'a Changes,
    /// The values of the rows' keys.
    keys: &'a [ArrayRef],
    /// Of the keys.
    hashes: &'a [u64],
    /// The number of each row's key, where it had one when the push began.
    found: &'a [u32],
    /// Whether a row has a key at all: a NULL in it may match nothing.
    is_keyed: Option<&'a [bool]>,
}

/// Pairs of rows of a push with slots of the other side's state.
#[derive(Default)]
struct Pairs {
    rows: Vec<u32>,
    slots: Vec<u32>,
}

impl JoinKernel {
    /// An empty join.
    pub fn new(node: &Join) -> JoinKernel {
        let pair_fields: Vec<_> = node
            .left_schema
            .fields()
            .iter()
            .chain(node.right_schema.fields())
            .map(|f| nullable(f))
            .collect();
        let counts_left = node.kind.pads_left() || !node.kind.gives_pairs();
        let names = node
            .residual
            .as_ref()
            .map_or(&[][..], |residual| residual.input_names());
        let keys = Arc::new(node.left_schema.project(&node.left_keys).expect("keys are columns"));
        JoinKernel {
            kind: node.kind,
            null_equals_null: node.null_equals_null,
            residual: node.residual.clone(),
            schema: node.schema.clone(),
            pair_schema: Arc::new(Schema::new(pair_fields)),
            sides: [
                Side::new(&node.left_schema, &node.left_keys, &keys, counts_left),
                Side::new(&node.right_schema, &node.right_keys, &keys, node.kind.pads_right()),
            ],
            keys: Keys::new(keys),
            tables: Node::Join(node.clone()).state_tables(),
            mixed_signs: false,
            pending: Vec::new(),
            waiting: 0,
            deletions: Vec::new(),
            errors: RowErrors::new(&node.name, names),
            is_loading: false,
        }
    }

    /// Meets a push with the other side's state: gives pairs, counts matches on both sides. Goes as far as the pairs are not too
    /// many.
    ///
    /// # Returns
    /// For each row that it came to, from the first on, how many rows match it.
    fn meet(&mut self, push: &Push<'_>) -> Result<Vec<i64>> {
        let (mut pairs, mut taken) = (Pairs::default(), push.found.len());
        let other = &self.sides[1 - push.input];
        for (row, key) in push.found.iter().enumerate() {
            other.slots(self.keys.head(*key, 1 - push.input), &mut pairs.slots);
            pairs.rows.resize(pairs.slots.len(), row as u32);
            if pairs.rows.len() >= PAIRS_MAX {
                taken = row + 1;
                break;
            }
        }
        let (mut matches, mut touched) = (vec![0i64; taken], Vec::new());
        self.take_pairs(push, pairs, &mut matches, &mut touched)?;
        self.give_transitions(1 - push.input, touched)?;
        Ok(matches)
    }

    /// # Arguments
    /// - `touched`: gets the rows of the other side whose match counts change: slot, key, by how much.
    fn take_pairs(
        &mut self,
        push: &Push<'_>,
        pairs: Pairs,
        matches: &mut [i64],
        touched: &mut Vec<(u32, u32, i64)>,
    ) -> Result<()> {
        if pairs.rows.is_empty() {
            return Ok(());
        }
        let (pairs, rows) = self.matching(push, pairs)?;
        let (other, own_weights) = (&self.sides[1 - push.input], push.changes.weights());
        let mut weights = Vec::with_capacity(pairs.rows.len());
        for (row, slot) in pairs.rows.iter().zip(&pairs.slots) {
            let (own, others) = (own_weights.get(*row as usize), other.weight(*slot));
            matches[*row as usize] += others;
            weights.push(own * others);
            if other.counts_matches() {
                touched.push((*slot, push.found[*row as usize], own));
            }
        }
        if self.kind.gives_pairs() && !pairs.rows.is_empty() && !self.is_loading {
            let rows = match rows {
                Some(rows) => rows,
                None => self.pair_rows(push, &pairs)?,
            };
            self.give(rows.columns().to_vec(), weights)?;
        }
        Ok(())
    }

    /// Keeps the pairs that satisfy the residual condition; gives their rows if they were gathered for it.
    fn matching(&mut self, push: &Push<'_>, pairs: Pairs) -> Result<(Pairs, Option<RecordBatch>)> {
        let Some(residual) = self.residual.clone() else {
            return Ok((pairs, None));
        };
        let rows = self.pair_rows(push, &pairs)?;
        let mask = self.satisfied(push, &pairs, &*residual, &rows)?;
        if mask.true_count() == mask.len() {
            return Ok((pairs, Some(rows)));
        }
        let keep = |values: &[u32]| -> Vec<u32> {
            values
                .iter()
                .enumerate()
                .filter(|(i, _)| mask.value(*i))
                .map(|(_, value)| *value)
                .collect()
        };
        let kept = Pairs {
            rows: keep(&pairs.rows),
            slots: keep(&pairs.slots),
        };
        Ok((kept, Some(arrow::compute::filter_record_batch(&rows, &mask)?)))
    }

    /// Which pairs satisfy the residual condition; those that it fails on do not, and are told of.
    fn satisfied(
        &mut self,
        push: &Push<'_>,
        pairs: &Pairs,
        residual: &dyn Predicate,
        rows: &RecordBatch,
    ) -> Result<BooleanArray> {
        let (other, own_weights) = (&self.sides[1 - push.input], push.changes.weights());
        let mut parts = Vec::new();
        self.errors.apart(
            rows,
            &|_, rows| residual.evaluate(rows),
            &mut |first, mask| parts.push((first, mask)),
            &|pair| own_weights.get(pairs.rows[pair] as usize) * other.weight(pairs.slots[pair]),
        )?;
        let mut satisfied = BooleanBufferBuilder::new(rows.num_rows());
        for (first, mask) in parts {
            // The pairs before it that are missing are those that failed.
            satisfied.append_n(first - satisfied.len(), false);
            let known = mask
                .nulls()
                .map_or(mask.values().clone(), |nulls| mask.values() & nulls.inner());
            satisfied.append_buffer(&known);
        }
        satisfied.append_n(rows.num_rows() - satisfied.len(), false);
        Ok(BooleanArray::new(satisfied.finish(), None))
    }

    /// Left columns then right columns of pairs.
    fn pair_rows(&self, push: &Push<'_>, pairs: &Pairs) -> Result<RecordBatch> {
        let indices = UInt32Array::from(pairs.rows.clone());
        let taken = |column: &ArrayRef| Ok(take(column, &indices, None)?);
        let own = push.changes.rows().columns().iter().map(taken);
        let own = own.collect::<Result<Vec<_>>>()?;
        // Both sides of a pair have one key, bit for bit.
        let own_keys = self.sides[push.input].key_columns();
        let of_key =
            |column: usize| match own[own_keys[column]].data_type() == self.keys.schema().field(column).data_type() {
                true => own[own_keys[column]].clone(),
                false => {
                    let keys: Vec<u32> = pairs.rows.iter().map(|row| push.found[*row as usize]).collect();
                    self.keys.gather(column, &keys)
                }
            };
        let other = self.sides[1 - push.input].gather(&pairs.slots, of_key);
        let columns = if push.input == LEFT {
            [own, other].concat()
        } else {
            [other, own].concat()
        };
        Changes::batch(self.pair_schema.clone(), columns, pairs.rows.len())
    }

    /// Adds to the match counts of one side and gives or takes back its unmatched (or matched) rows.
    fn give_transitions(&mut self, side: usize, touched: Vec<(u32, u32, i64)>) -> Result<()> {
        if touched.is_empty() {
            return Ok(());
        }
        let (mut slots, mut keys, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let changed = self.sides[side].add_matches(touched);
        if self.is_loading {
            return Ok(());
        }
        for transition in changed {
            let is_given = transition.is_matched == (self.kind == JoinKind::Semi);
            slots.push(transition.slot);
            keys.push(transition.key);
            weights.push(if is_given { 1 } else { -1 } * self.sides[side].weight(transition.slot));
        }
        let rows = self.sides[side].gather(&slots, |column| self.keys.gather(column, &keys));
        self.give_alone(side, rows, weights)
    }

    /// Gives rows of one side by themselves: padded, or bare for semi and anti joins.
    fn give_alone(&mut self, side: usize, columns: Vec<ArrayRef>, weights: Vec<i64>) -> Result<()> {
        if weights.is_empty() {
            return Ok(());
        }
        if !self.kind.gives_pairs() {
            return self.give(columns, weights);
        }
        let other = self.sides[1 - side].schema();
        let nulls: Vec<ArrayRef> = other
            .fields()
            .iter()
            .map(|field| new_null_array(field.data_type(), weights.len()))
            .collect();
        self.give(
            if side == LEFT {
                [columns, nulls].concat()
            } else {
                [nulls, columns].concat()
            },
            weights,
        )
    }

    fn give(&mut self, columns: Vec<ArrayRef>, weights: Vec<i64>) -> Result<()> {
        let rows = Changes::batch(self.schema.clone(), columns, weights.len())?;
        let weights = if weights.iter().all(|weight| *weight == 1) {
            Weights::All(1)
        } else {
            Weights::Each(weights)
        };
        self.mixed_signs |= !weights.is_insertion();
        self.waiting += rows.num_rows();
        self.pending.push(Changes::new(rows, weights));
        Ok(())
    }

    /// Gives the insertions among what waits; deletions go behind all of them, at the end of the epoch.
    fn give_insertions(&mut self, output: &mut Vec<Changes>) -> Result<()> {
        for changes in std::mem::take(&mut self.pending) {
            if changes.weights().is_insertion() {
                output.push(changes);
                continue;
            }
            let is_insertion = |row| changes.weights().get(row) > 0;
            let mask: BooleanArray = (0..changes.len()).map(|row| Some(is_insertion(row))).collect();
            let insertions = changes.filter(&mask)?;
            output.extend((!insertions.is_empty()).then_some(insertions));
            self.deletions.push(changes.filter(&not(&mask)?)?);
        }
        Ok(())
    }

    /// Gives the rows of a push that come out by themselves.
    fn give_own(&mut self, input: usize, changes: &Changes, matches: &[i64]) -> Result<()> {
        if !self.sides[input].counts_matches() || self.is_loading {
            return Ok(());
        }
        let wanted_matched = self.kind == JoinKind::Semi;
        let rows: Vec<u32> = (0..changes.len() as u32)
            .filter(|row| (matches[*row as usize] != 0) == wanted_matched)
            .collect();
        let indices = UInt32Array::from(rows.clone());
        let columns = changes
            .rows()
            .columns()
            .iter()
            .map(|column| take(column, &indices, None))
            .collect::<Result<Vec<_>, _>>()?;
        let weights = rows.iter().map(|row| changes.weights().get(*row as usize)).collect();
        self.give_alone(input, columns, weights)
    }
}

impl JoinKernel {
    /// Takes rows of a push, few enough that what is found for all of them is still in the cache for each.
    ///
    /// # Returns
    /// How many it has taken: fewer than all where their pairs are very many.
    fn push_block(&mut self, input: usize, changes: &Changes) -> Result<usize> {
        let columns = changes.rows().columns();
        let keys: Vec<ArrayRef> = self.sides[input]
            .key_columns()
            .iter()
            .map(|column| columns[*column].clone())
            .collect();
        let hashes = hash_rows(&keys, changes.len());
        let view = RowStore::view(0..keys.len(), &keys);
        let mut found = self.keys.find_all(&hashes, &view);
        let is_keyed = self.keyed(&keys, &view, changes.len());
        if let Some(is_keyed) = &is_keyed {
            let unkeyed = found.iter_mut().zip(is_keyed).filter(|(_, is_keyed)| !**is_keyed);
            unkeyed.for_each(|(key, _)| *key = NO_KEY);
        }
        let push = Push {
            input,
            changes,
            keys: &keys,
            hashes: &hashes,
            found: &found,
            is_keyed: is_keyed.as_deref(),
        };
        self.touch(&found);
        let matches = match self.is_loading && !self.counts_matches() {
            true => vec![0; push.found.len()],
            false => self.meet(&push)?,
        };
        self.give_own(input, &changes.slice(0, matches.len()), &matches)?;
        self.apply(&push, &matches)?;
        Ok(matches.len())
    }

    /// Whether it matters for any row how many match it.
    fn counts_matches(&self) -> bool {
        self.sides.iter().any(Side::counts_matches)
    }

    /// Which rows of a push have a key that may match; `None`: all.
    fn keyed(&self, keys: &[ArrayRef], view: &RowView<'_>, rows: usize) -> Option<Vec<bool>> {
        let may_lack = !self.null_equals_null && keys.iter().any(|key| key.null_count() > 0);
        may_lack.then(|| (0..rows).map(|row| !view.any_null(row)).collect())
    }

    /// Reads what rows of these keys will need, so that it is in the cache by then: the reads do not depend on each other.
    fn touch(&self, keys: &[u32]) {
        let [left, right] = &self.sides;
        let touched = keys.iter().fold(0, |sum, key| {
            let heads = self.keys.heads(*key);
            sum ^ left.touch(heads[0]) ^ right.touch(heads[1])
        });
        std::hint::black_box(touched);
    }

    /// Joins rows of a push to their side's state.
    ///
    /// # Arguments
    /// - `matches`: how many rows match each; rows behind the last of it are left.
    fn apply(&mut self, push: &Push<'_>, matches: &[i64]) -> Result<()> {
        let own = push.input;
        let side = &mut self.sides[own];
        let view = RowStore::view(0..push.keys.len(), push.keys);
        let (stored, hashes) = side.stored(push.changes.rows().columns(), push.changes.len());
        let mut removed = Vec::new();
        for (row, matches) in matches.iter().enumerate() {
            if push.is_keyed.is_some_and(|is_keyed| !is_keyed[row]) {
                continue;
            }
            let key = self.keys.ensure(push.found[row], push.hashes[row], &view, row);
            let incoming = Incoming {
                row,
                weight: push.changes.weights().get(row),
                matches: *matches,
                hash: hashes[row],
            };
            if side.apply(self.keys.head_mut(key, own), key, &stored, &incoming)? == Outcome::Removed {
                self.keys.thin(key, push.hashes[row]);
                removed.push(row as u32);
            }
        }
        self.keys.sweep();
        side.note_removed(push.changes, removed)
    }
}

fn nullable(field: &arrow::datatypes::Field) -> arrow::datatypes::Field {
    field.clone().with_nullable(true)
}

impl Kernel for JoinKernel {
    fn push(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<()> {
        let mut from = 0;
        while from < changes.len() {
            from += self.push_some(input, &changes.slice(from, changes.len() - from), output)?;
        }
        Ok(())
    }

    fn push_some(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<usize> {
        let (mut from, waiting) = (0, self.waiting);
        while from < changes.len() && self.waiting - waiting < PAIRS_MAX {
            let rows = ROWS_PER_BLOCK.min(changes.len() - from);
            from += self.push_block(input, &changes.slice(from, rows))?;
        }
        if self.waiting > WAITING_MAX {
            self.waiting = 0;
            self.give_insertions(output)?;
        }
        Ok(from)
    }

    fn take_errors(&mut self) -> Result<Option<Changes>> {
        self.errors.take()
    }

    fn finish(&mut self, _epoch: Epoch, output: &mut Vec<Changes>) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.append(&mut self.deletions);
        self.waiting = 0;
        if std::mem::take(&mut self.mixed_signs) {
            let all = Changes::concat(&self.schema, &pending)?.consolidate()?;
            output.extend((!all.is_empty()).then_some(all));
        } else {
            output.extend(pending);
        }
        Ok(())
    }

    fn read(&self, table: usize, keys: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        let wanted = match keys {
            None => self.keys.all(),
            Some(keys) => {
                let count = keys.first().map_or(0, |key| key.len());
                let view = RowStore::view(0..keys.len(), keys);
                self.keys.find_all(&hash_rows(keys, count), &view)
            }
        };
        let rows = self.sides[table].read(&self.tables[table].columns, &self.keys, table, &wanted)?;
        Ok(vec![rows])
    }

    /// How many rows match each is no part of the state tables: it is counted again.
    fn load(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let side = self.sides[table].schema().clone();
        let changes = counted_rows(rows, &self.tables[table].columns, &side)?;
        self.is_loading = true;
        let mut from = 0;
        while from < changes.len() {
            let rows = ROWS_PER_BLOCK.min(changes.len() - from);
            from += self.push_block(table, &changes.slice(from, rows))?;
        }
        self.is_loading = false;
        // Whom the condition fails on was told of when they came.
        self.errors.take().map(drop)
    }

    fn stand(&mut self, tables: &[Vec<RecordBatch>]) -> Result<Vec<(usize, Changes)>> {
        let sides = tables.iter().enumerate();
        let parts = sides.flat_map(|(side, parts)| parts.iter().map(move |rows| (side, rows)));
        let rows = parts.map(|(side, rows)| {
            let schema = self.sides[side].schema().clone();
            Ok((side, counted_rows(rows, &self.tables[side].columns, &schema)?))
        });
        rows.collect()
    }

    fn note_changes(&mut self, table: usize) {
        self.sides[table].note_changes();
    }

    fn take_changes(&mut self, table: usize) -> Result<StateChanges> {
        let (there, gone) = self.sides[table].take_changes(&self.tables[table].columns, &self.keys)?;
        StateChanges::settled(&self.tables[table], vec![there], gone)
    }

    fn size(&self, table: usize) -> (u64, u64) {
        let (rows, bytes) = self.sides[table].size();
        // The keys are kept once for both.
        (rows, bytes + self.keys.memory_bytes() as u64 / 2)
    }
}
