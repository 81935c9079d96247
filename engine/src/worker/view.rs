//! One view on one worker: its inputs' queues, the epochs it owes, and reads that wait for it.

use super::{CreateView, OperatorSizes, Peek, send};
use crate::dataflow::{BuiltInput, BuiltView, guarded};
use crate::engine::{StateFound, StateRows};
use crate::keep::Kept;
use crate::kernel::StateChanges;
use crate::meters::ViewMeters;
use crate::plan::{CollectionId, Node};
use crate::replay::{ReplayInput, Replayed};
use crate::status::ViewStatus;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Epoch, Error, Pin, Result, Scan, Weights};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use timely::progress::frontier::AntichainRef;
use timely::scheduling::Activator;

/// Rows of existing contents fed to a new view in one turn.
const BACKFILL_ROWS_PER_TURN: usize = 64 * 1024;

pub(super) struct View {
    dataflow: usize,
    start: u64,
    /// Changes up to it are in what the view began with.
    inputs_at: u64,
    name: String,
    built: BuiltView,
    edges: Vec<Edge>,
    /// Replays of sources that are not at their end.
    replays: Vec<(CollectionId, ReplayInput)>,
    /// Epochs that touch the view and are not finished, ascending.
    outstanding: VecDeque<u64>,
    /// Whether the last of them may get more rows.
    is_open: bool,
    peeks: VecDeque<Arc<Peek>>,
    status: Arc<ViewStatus>,
    meters: Arc<ViewMeters>,
    /// State table counts per node.
    tables: BTreeMap<usize, usize>,
    awake: bool,
    backfilled: bool,
    /// What it was when it was started: another collection, where it took a view's place.
    started_as: CollectionId,
    /// Epochs that it is not given later ones than for now.
    holds: Vec<u64>,
    /// Whether it has to be given state before anything else.
    awaits_state: bool,
}

/// What is left to feed of the time before the view.
enum Left {
    Nothing,
    Rows,
    /// Rows that are on their way; who brings them wakes the worker.
    RowsToCome,
}

struct Edge {
    collection: Option<CollectionId>,
    /// The columns of it that the view knows: the first ones, under the names that they had when it was made.
    columns: Option<SchemaRef>,
    /// Whether existing contents come in.
    is_read: bool,
    is_view: bool,
    queue: VecDeque<(u64, Changes)>,
    backfill: Option<Scan>,
}

impl View {
    pub(super) fn new(request: &CreateView, built: BuiltView, dataflow: usize, worker: usize) -> View {
        let mut edges = Vec::new();
        let is_read = |node: &usize| match &request.replaces {
            Some(replaces) => replaces.kept.rebuilt.contains(node),
            None => request.state.is_none(),
        };
        for BuiltInput { collection, node, .. } in &built.inputs {
            let snapshot = collection.and_then(|collection| request.snapshots.get(&collection));
            let unread = snapshot.filter(|_| is_read(node));
            let backfill = unread.and_then(|snapshot| {
                // A table of the committer has one shard, which worker 0 reads for all.
                let shards = if snapshot.is_view {
                    worker..worker + 1
                } else {
                    0..snapshot.table.shards()
                };
                (snapshot.is_view || worker == 0).then(|| {
                    snapshot
                        .table
                        .scan(snapshot.pin.clone(), snapshot.projection.clone(), shards)
                })
            });
            let is_view = snapshot.is_some_and(|snapshot| snapshot.is_view);
            let columns = match &request.plan.nodes[*node] {
                Node::Input { schema, .. } => Some(schema.clone()),
                _ => None,
            };
            edges.push(Edge {
                columns,
                collection: *collection,
                is_read: is_read(node),
                is_view,
                queue: VecDeque::new(),
                backfill,
            });
        }
        for (input, rows) in &built.constants {
            if worker == 0 && !rows.is_empty() && is_read(&built.inputs[*input].node) {
                edges[*input].queue.push_back((request.epoch.0, rows.clone()));
            }
        }
        let replays = request.replays.iter().filter(|_| worker == 0);
        let replays = replays.map(|(collection, replay)| (*collection, replay.clone()));
        let tables = request
            .plan
            .nodes
            .iter()
            .enumerate()
            .map(|(id, node)| (id, node.state_tables().len()));
        View {
            dataflow,
            start: request.epoch.0,
            inputs_at: request.inputs_at.0,
            name: request.plan.table.name.clone(),
            built,
            edges,
            replays: replays.collect(),
            outstanding: VecDeque::from([request.epoch.0]),
            is_open: false,
            peeks: VecDeque::new(),
            status: request.status.clone(),
            meters: request.meters.clone(),
            tables: tables.filter(|(_, count)| *count > 0).collect(),
            awake: true,
            backfilled: false,
            started_as: request.id,
            holds: Vec::new(),
            awaits_state: false,
        }
    }

    pub(super) fn dataflow(&self) -> usize {
        self.dataflow
    }

    /// Fails the view because a view that it reads has failed.
    pub(super) fn fail_with(&self, input: &View, error: &Error) {
        let text = format!(
            "cannot keep view `{}` current: view `{}`, which it reads, has failed",
            self.name, input.name
        );
        self.status.fail(
            Error::new(error.kind(), "ENGINE-0002", text)
                .sqlstate(error.state())
                .fact("cause", error.message()),
        );
    }

    pub(super) fn status(&self) -> &ViewStatus {
        &self.status
    }

    /// The collections that it reads.
    pub(super) fn collections(&self) -> impl Iterator<Item = CollectionId> {
        self.edges.iter().filter_map(|edge| edge.collection)
    }

    /// The views that it reads.
    pub(super) fn inputs(&self) -> impl Iterator<Item = CollectionId> {
        self.edges
            .iter()
            .filter(|edge| edge.is_view)
            .filter_map(|edge| edge.collection)
    }

    /// Queues changes of an input.
    pub(super) fn offer(&mut self, collection: CollectionId, epoch: Epoch, changes: &Changes) {
        for edge in self.edges.iter_mut().filter(|edge| edge.collection == Some(collection)) {
            if epoch.0 > self.inputs_at && !changes.is_empty() && !self.status.is_failed() {
                match edge.known(changes) {
                    Ok(known) if known.is_empty() => {}
                    Ok(known) => edge.queue.push_back((epoch.0, known)),
                    Err(error) => self.status.fail(error),
                }
                self.awake = true;
            }
        }
    }

    /// Notes that an epoch touches the view; one that is open has no end yet.
    pub(super) fn touch(&mut self, epoch: Epoch, is_open: bool) {
        if epoch.0 > self.start {
            if self.outstanding.back() != Some(&epoch.0) {
                self.outstanding.push_back(epoch.0);
            }
            self.is_open = is_open;
            self.awake = true;
        }
    }

    /// Rows that its operators have not taken yet.
    pub(super) fn rows_waiting(&self) -> usize {
        let queued = self.edges.iter().flat_map(|edge| &edge.queue);
        self.built.waiting.get() + queued.map(|(_, changes)| changes.len()).sum::<usize>()
    }

    pub(super) fn wake(&mut self) {
        self.awake = true;
    }

    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    pub(super) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    pub(super) fn first_outstanding(&self) -> Option<u64> {
        self.outstanding.front().copied()
    }

    /// Every epoch up to here is finished.
    pub(super) fn done(&self) -> u64 {
        self.first_outstanding().map_or(u64::MAX, |epoch| epoch - 1)
    }

    /// Whether `visible` is an epoch of the view that is finished.
    pub(super) fn is_within(&self, visible: Epoch) -> bool {
        (self.start..=self.done()).contains(&visible.0)
    }

    /// Whether the view has given its first contents.
    pub(super) fn has_caught_up(&self) -> bool {
        self.first_outstanding() != Some(self.start)
    }

    /// Sends what may be sent and advances the inputs.
    ///
    /// # Arguments
    /// - `bounds`: per input that is a view, the first epoch it still owes.
    ///
    /// # Returns
    /// Whether existing contents are still being read.
    pub(super) fn feed(&mut self, bounds: &BTreeMap<CollectionId, u64>) -> bool {
        if self.awaits_state {
            return false;
        }
        if !self.backfilled {
            match self.backfill(bounds).and_then(|left| match left {
                Left::Nothing => self.replay(),
                left => Ok(left),
            }) {
                Ok(Left::Nothing) => self.backfilled = true,
                Ok(Left::Rows) => return true,
                Ok(Left::RowsToCome) => return false,
                Err(error) => {
                    self.status.fail(error);
                    return true;
                }
            }
        }
        let peeked = self.peeks.front().map(|peek| peek.epoch.0);
        let held = peeked.into_iter().chain(self.holds.iter().copied()).min();
        let hold = held.map_or(u64::MAX, |epoch| epoch.saturating_add(1));
        let last = self.outstanding.back().copied();
        let open = last.filter(|epoch| self.is_open && *epoch < hold);
        let end = last.map_or(0, |epoch| if self.is_open { epoch } else { epoch + 1 });
        let target = end.min(hold);
        let reached = open.unwrap_or(target.saturating_sub(1)).max(self.built.reached.get());
        if self.built.reached.replace(reached) < reached && open.is_some() {
            // Rows that other workers have sent already may be taken now, though no frontier moves.
            self.built.activators.iter().for_each(Activator::activate);
        }
        for (edge, input) in self.edges.iter_mut().zip(&mut self.built.inputs) {
            let bound = match edge.collection {
                None => u64::MAX,
                Some(collection) if edge.is_view => target.min(bounds.get(&collection).copied().unwrap_or(u64::MAX)),
                Some(_) => target,
            };
            edge.send_below(bound, input, &self.meters);
            if let Some(open) = open {
                edge.send_of(open, input, &self.meters);
            }
        }
        self.awake = false;
        false
    }

    /// Feeds one turn's rows of the inputs' existing contents.
    fn backfill(&mut self, bounds: &BTreeMap<CollectionId, u64>) -> Result<Left> {
        if self.status.is_failed() {
            // What is left of the scans would hold back history for nothing, and replays would wait for ever.
            self.edges.iter_mut().for_each(|edge| edge.backfill = None);
            self.replays.clear();
            return Ok(Left::Nothing);
        }
        for (edge, input) in self.edges.iter_mut().zip(&mut self.built.inputs) {
            let Some(scan) = &mut edge.backfill else {
                continue;
            };
            if edge
                .collection
                .and_then(|input| bounds.get(&input))
                .is_some_and(|first| *first <= self.inputs_at)
            {
                return Ok(Left::Rows);
            }
            match scan.next_batch(BACKFILL_ROWS_PER_TURN)? {
                Some(rows) => {
                    let rows = Changes::insertions(rows);
                    let rows = match &edge.columns {
                        Some(columns) => known_of(&rows, columns, edge.is_view)?,
                        None => rows,
                    };
                    send(input, &self.meters, self.start, rows);
                    return Ok(Left::Rows);
                }
                None => edge.backfill = None,
            }
        }
        Ok(Left::Nothing)
    }

    /// Feeds a batch of what sources passed on before the view was there.
    fn replay(&mut self) -> Result<Left> {
        while let Some((collection, replay)) = self.replays.last() {
            match replay.poll()? {
                Replayed::Rows(rows) => {
                    let rows = Changes::insertions(rows);
                    let inputs = self.edges.iter().zip(&mut self.built.inputs);
                    inputs
                        .filter(|(edge, _)| edge.is_read && edge.collection == Some(*collection))
                        .for_each(|(_, input)| send(input, &self.meters, self.start, rows.clone()));
                    return Ok(Left::Rows);
                }
                Replayed::Nothing => return Ok(Left::RowsToCome),
                Replayed::End => {
                    self.replays.pop();
                }
            }
        }
        Ok(Left::Nothing)
    }

    /// Drops epochs that every worker has finished.
    ///
    /// # Returns
    /// What they published here; `None` if none was finished.
    pub(super) fn finish_epochs(&mut self) -> Option<Vec<(u64, Changes)>> {
        let frontier = self
            .built
            .probe
            .with_frontier(|frontier: AntichainRef<u64>| frontier.first().copied());
        let frontier = frontier.unwrap_or(u64::MAX);
        let before = self.outstanding.len();
        while self.outstanding.front().is_some_and(|epoch| *epoch < frontier) {
            self.outstanding.pop_front();
        }
        if self.outstanding.len() == before {
            return None;
        }
        let mut published = self.built.published.borrow_mut();
        let ready = published.partition_point(|(epoch, _)| *epoch < frontier);
        Some(published.drain(..ready).collect())
    }

    pub(super) fn started_as(&self) -> CollectionId {
        self.started_as
    }

    /// Sees to it that it is not given epochs after this one, until it is let go.
    pub(super) fn hold(&mut self, epoch: Epoch) {
        self.holds.push(epoch.0);
    }

    /// Ends a hold.
    pub(super) fn let_go(&mut self, epoch: Epoch) {
        let hold = self.holds.iter().position(|held| *held == epoch.0);
        hold.map(|hold| self.holds.swap_remove(hold));
        self.awake = true;
    }

    /// Whether all epochs up to this one are finished.
    pub(super) fn has_finished(&self, epoch: Epoch) -> bool {
        self.done() >= epoch.0
    }

    /// Gives nothing before it has state.
    pub(super) fn await_state(&mut self) {
        self.awaits_state = true;
    }

    /// Takes what it keeps of the state of another view, which stands still.
    ///
    /// # Arguments
    /// - `errors`: those of the other view's rows.
    pub(super) fn take_state(&mut self, old: &View, kept: &Kept, errors: Option<Scan>) -> Result<()> {
        self.awaits_state = false;
        self.awake = true;
        for (node, of) in &kept.below {
            let (mut kernel, old) = (self.built.kernels[node].borrow_mut(), old.built.kernels[of].borrow());
            for table in 0..self.tables[node] {
                let mut parts = old.read(table, None)?.into_iter();
                parts.try_for_each(|rows| kernel.load(table, &rows))?;
            }
        }
        for (node, of) in &kept.standing {
            let old = old.built.kernels[of].borrow();
            let tables = (0..self.tables[node]).map(|table| old.read(table, None));
            let tables = tables.collect::<Result<Vec<_>>>()?;
            let rows = self.built.kernels[node].borrow_mut().stand(&tables)?;
            self.built.added[node].borrow_mut().extend(rows);
        }
        let mut errors = errors.filter(|_| !kept.errors.is_empty());
        while let Some(scan) = &mut errors
            && let Some(rows) = scan.next_weighted(BACKFILL_ROWS_PER_TURN)?
        {
            let operators = rows.rows().column(0).as_string::<i32>();
            let is_kept = |operator: Option<&str>| operator.is_some_and(|operator| kept.errors.contains(operator));
            let rows = rows.filter(&operators.iter().map(|operator| Some(is_kept(operator))).collect())?;
            self.built.added_errors.borrow_mut().push((0, rows));
        }
        self.built.activators.iter().for_each(Activator::activate);
        Ok(())
    }

    /// Goes on with the table of another view, which stands still as this one does.
    ///
    /// # Arguments
    /// - `epoch`: of the difference between the two. `before`: the epoch before.
    pub(super) fn take_table(&mut self, old: &View, worker: usize, epoch: Epoch, before: &Pin) -> Result<()> {
        let table = old.built.publisher.borrow().table().clone();
        let mut publisher = self.built.publisher.borrow_mut();
        let columns = &table.schema().columns;
        let mut parts = Vec::new();
        for (table, sign) in [(&table, -1), (publisher.table(), 1)] {
            let mut scan = table.scan(
                before.clone(),
                (0..columns.fields().len()).collect(),
                worker..worker + 1,
            );
            while let Some(changes) = scan.next_weighted(BACKFILL_ROWS_PER_TURN)? {
                let weights = (0..changes.len()).map(|row| sign * changes.weights().get(row));
                let rows = Changes::relabel(changes.rows().clone(), columns.clone())?;
                parts.push(Changes::new(rows, Weights::Each(weights.collect())));
            }
        }
        let difference = Changes::concat(columns, &parts)?.consolidate()?;
        publisher.go_on_with(table, epoch, difference)
    }

    pub(super) fn register(&mut self, peek: Arc<Peek>) {
        self.peeks.push_back(peek);
        self.awake = true;
    }

    /// Reads that are not answered yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Peek>> {
        self.peeks.iter()
    }

    /// Answers reads whose epoch is finished.
    ///
    /// # Returns
    /// Whether any was answered, so that the view may be fed again.
    pub(super) fn answer_peeks(&mut self) -> bool {
        let mut answered = false;
        while let Some(peek) = self.peeks.front() {
            if self.first_outstanding().is_some_and(|epoch| epoch <= peek.epoch.0) {
                return answered;
            }
            // The reader may have gone away.
            let _ = peek.reply.send(self.read(peek));
            self.peeks.pop_front();
            self.awake = true;
            answered = true;
        }
        answered
    }

    fn read(&self, peek: &Peek) -> Result<StateFound> {
        if let Some(error) = self.status.failure() {
            return Err(error.clone());
        }
        let kernel = self
            .built
            .kernels
            .get(&peek.node)
            .filter(|_| peek.table < self.tables[&peek.node]);
        let kernel =
            kernel.ok_or_else(|| Error::bug(format!("node {} has no state table {}", peek.node, peek.table)))?;
        guarded(|| {
            let (mut kernel, table) = (kernel.borrow_mut(), peek.table);
            let there = |there| StateChanges {
                there,
                gone: Vec::new(),
            };
            let mut base = Vec::new();
            let rows = match &peek.rows {
                StateRows::All => there(kernel.read(table, None)?),
                StateRows::Columns(columns) => {
                    let project = |rows: RecordBatch| Ok(rows.project(columns)?);
                    there(
                        kernel
                            .read(table, None)?
                            .into_iter()
                            .map(project)
                            .collect::<Result<_>>()?,
                    )
                }
                StateRows::OfKeys(keys) => there(kernel.read(table, Some(keys))?),
                StateRows::Base => {
                    kernel.note_changes(table);
                    base.push(kernel.read_later(table)?);
                    StateChanges::default()
                }
                StateRows::Changed => kernel.take_changes(table)?,
            };
            let size = kernel.size(table).0;
            Ok(StateFound { rows, base, size })
        })
    }

    pub(super) fn sizes(&self) -> OperatorSizes {
        let mut sizes = Vec::new();
        for (node, tables) in &self.tables {
            let kernel = self.built.kernels[node].borrow();
            sizes.extend((0..*tables).map(|table| {
                let (rows, bytes) = kernel.size(table);
                (*node, table, rows, bytes)
            }));
        }
        sizes
    }
}

/// What a view knows of changes to a table that has got other names and further columns since the view was made.
fn known_of(changes: &Changes, columns: &SchemaRef, is_view: bool) -> Result<Changes> {
    let given = changes.schema();
    let (given, known) = (given.fields(), columns.fields());
    let names = given.iter().zip(known.iter());
    let is_as_made = given.len() == known.len() && names.clone().all(|(given, known)| given.name() == known.name());
    if is_view || is_as_made || given.len() < known.len() {
        return Ok(changes.clone());
    }
    let first: Vec<usize> = (0..known.len()).collect();
    let rows = Changes::relabel(changes.rows().project(&first)?, columns.clone())?;
    changes.with_rows(rows).consolidate()
}

impl Edge {
    /// What the view knows of changes to what it reads.
    fn known(&self, changes: &Changes) -> Result<Changes> {
        match &self.columns {
            Some(columns) => known_of(changes, columns, self.is_view),
            None => Ok(changes.clone()),
        }
    }

    /// Sends queued changes of an open epoch, which the input is at; a view gives its changes when the epoch has its end.
    fn send_of(&mut self, open: u64, input: &mut BuiltInput, meters: &ViewMeters) {
        if self.is_view || self.collection.is_none() {
            return;
        }
        while self.queue.front().is_some_and(|(epoch, _)| *epoch == open) {
            let (epoch, changes) = self.queue.pop_front().expect("just seen");
            send(input, meters, epoch, changes);
        }
    }

    /// Sends queued changes of epochs below `bound` and advances the input to it.
    fn send_below(&mut self, bound: u64, input: &mut BuiltInput, meters: &ViewMeters) {
        while let Some((epoch, _)) = self.queue.front()
            && *epoch < bound
        {
            let (epoch, changes) = self.queue.pop_front().expect("just seen");
            send(input, meters, epoch, changes);
        }
        if *input.handle.time() < bound {
            input.handle.advance_to(bound);
        }
    }
}
