//! The committer: one thread that numbers commits, checks them, makes them durable and hands them to the workers.
//!
//! # Rules kept here
//! 1. Epochs are dense. Every commit, DDL included, is one epoch; commits that are queued together share one fsync.
//! 2. A commit is checked against the newest contents: a key that is there already (the primary one or another), or a row that another commit
//!    changed since it was read, refuses the whole commit before anything is changed.
//! 3. A commit is on disk before any worker, and so any reader, sees it.
//! 4. Batches of a source that are sealed together ([`Sealing::WithNext`]) are in one epoch, which is open until something
//!    else asks for its end: any other commit, a read of state, its own size, the end of the engine.
//! 5. Epochs of sources grow with what has queued up: a batch is an epoch of its own while the views keep up, and waits for
//!    others of its source while they are behind.
//! 6. At most [`ROWS_IN_FLIGHT_MAX`] rows and [`EPOCHS_IN_FLIGHT_MAX`] epochs are ahead of the slowest view. An open epoch may have
//!    more rows, as views take them on the way: it ends at [`OPEN_BYTES_MAX`] or [`OPEN_ROWS_MAX`].
//!
//! # Not here
//! SQL, and what a row must satisfy beyond its key (`query`); the log's format ([`cenote_statestore::wal`]).

mod keys;
mod tables;

use crate::meters::ViewMeters;
use crate::plan::{CollectionId, ViewPlan};
use crate::progress::Progress;
use crate::replay::ReplayInput;
use crate::status::ViewStatus;
use crate::worker::{Command, CreateView, InputSnapshot, Peek, WorkerPort};
use arrow::array::RecordBatch;
use cenote_statestore::wal::Log;
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result, Retention, VersionedTable};
use crossbeam_channel::{Receiver, Sender};
pub use keys::{RowKey, row_keys};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
pub(crate) use tables::Tables;
pub use tables::{ROW_ID, is_row_numbered, visible_columns};
use tokio::sync::{mpsc, oneshot};

/// Rows handed to the workers that not every view has finished.
const ROWS_IN_FLIGHT_MAX: usize = 8 << 20;

/// Rows and bytes of an epoch that is left open: what views keep until its end is bounded by them.
const OPEN_ROWS_MAX: usize = 64 << 20;
const OPEN_BYTES_MAX: usize = 512 << 20;

/// Epochs handed to the workers that not every view has finished.
const EPOCHS_IN_FLIGHT_MAX: u64 = 16 * 1024;

/// Epochs of sources that the views may be behind with before batches wait, to be of one epoch when their turn comes:
/// one to work on, and one to go on with.
const SOURCE_EPOCHS_MAX: usize = 2;

/// Requests taken into one group, which shares an fsync.
const GROUP_MAX: usize = 1024;

/// Rows of one chunk when a batch is dealt out to several workers.
const ROWS_PER_DEAL: usize = 16 * 1024;

/// What to do with an inserted row whose key is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse the commit, SQLSTATE 23505.
    Refuse,
    /// Refuse the commit, SQLSTATE 40001: whoever sent it had seen no such row, and decides anew.
    Retry,
    /// Keep the row that is there; `Retry` where it is another key than the primary one.
    Ignore,
    /// Put the new row in its place.
    Replace,
}

/// Changes to one table in a commit.
#[derive(Clone, Debug)]
pub struct TableWrite {
    /// The table.
    pub table: CollectionId,
    /// Rows to delete, all stored columns, as they were read.
    pub deletes: Vec<RecordBatch>,
    /// Rows to insert: the table's columns, with or without its hidden row number.
    pub inserts: Vec<RecordBatch>,
    /// What to do where a key is there already.
    pub on_conflict: OnConflict,
    /// Delete everything first, whatever it is then.
    pub truncate: bool,
}

/// One atomic change of the database.
#[derive(Debug, Default)]
pub struct Commit {
    /// Changes to tables, one entry per table.
    pub writes: Vec<TableWrite>,
    /// Changes of sources without a table: passed to the views that read them, kept nowhere.
    pub passing: Vec<(CollectionId, RecordBatch)>,
    /// The epoch that deleted rows were read at; a row changed since then refuses the commit.
    pub read_at: Epoch,
    /// A catalog change to log with it.
    pub ddl: Option<Vec<u8>>,
    /// Tables to add before the writes.
    pub create_tables: Vec<(CollectionId, Arc<VersionedTable>)>,
    /// A view to start, reading its inputs as of the epoch before.
    pub create_view: Option<NewView>,
    /// Views, then tables, to drop.
    pub drops: Vec<CollectionId>,
}

/// A view to start.
#[derive(Debug)]
pub struct NewView {
    /// Its collection.
    pub id: CollectionId,
    /// Its plan.
    pub plan: ViewPlan,
    /// Where its state is told.
    pub status: Arc<ViewStatus>,
    /// Where its work is counted.
    pub meters: Arc<ViewMeters>,
    /// Where its contents go.
    pub table: Arc<VersionedTable>,
    /// Where the errors of its rows go, if it can have any ([`ViewPlan::errors_table`]); with `None` they fail the view.
    pub errors: Option<Arc<VersionedTable>>,
    /// Whether its changes are followed: by views that read it, or through the history of its table. If not, rows are
    /// applied before the end of an epoch of very many.
    pub is_followed: bool,
    /// What its sources passed on before, for those that keep no rows and run already.
    pub replays: BTreeMap<CollectionId, ReplayInput>,
}

pub(crate) enum Request {
    Commit {
        commit: Commit,
        reply: oneshot::Sender<Result<Epoch>>,
    },
    /// A commit of a source, which may be merged with others of the same source; the permit frees its queue place.
    Source {
        source: CollectionId,
        commit: Commit,
        sealing: Sealing,
        permit: SourcePermit,
    },
    Peek {
        peeks: Vec<PeekRequest>,
        reply: oneshot::Sender<Epoch>,
    },
    /// Batches of sources are not to wait for views any longer.
    Flush,
    Sizes {
        view: CollectionId,
        reply: mpsc::UnboundedSender<crate::worker::OperatorSizes>,
    },
    Shutdown,
}

pub(crate) struct PeekRequest {
    pub(crate) read: crate::engine::StateRead,
    pub(crate) answers: mpsc::UnboundedSender<Result<Vec<RecordBatch>>>,
}

/// When the rows of a source's batch are sealed, so that they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// In an epoch of their own, or with others of their source if views are behind.
    AtOnce,
    /// With the next commit that is not of this kind, or when they are very many: for rows that pass to the views, and whose
    /// way nobody watches. Only without a log.
    WithNext,
}

/// A place in a source's queue; dropped when its batch is committed or refused.
#[derive(Debug)]
pub(crate) struct SourcePermit {
    pub(crate) free: Sender<()>,
    pub(crate) failure: Arc<std::sync::OnceLock<Error>>,
}

impl Drop for SourcePermit {
    fn drop(&mut self) {
        let _ = self.free.try_send(());
    }
}

/// How long sealed epochs stay readable.
#[derive(Clone, Copy, Debug)]
pub struct RetentionRule {
    /// At least this many epochs behind the newest.
    pub epochs: u64,
    /// At least this long.
    pub time: Duration,
}

pub(crate) struct Committer {
    pub(crate) requests: Receiver<Request>,
    /// Has a token after the visible epoch has moved.
    pub(crate) visible_moved: Receiver<()>,
    /// Batches of sources that wait for views to catch up.
    pub(crate) held: VecDeque<Request>,
    /// Epochs of sources that are not visible yet.
    pub(crate) source_epochs: VecDeque<Epoch>,
    pub(crate) tables: Tables,
    pub(crate) views: BTreeMap<CollectionId, Arc<VersionedTable>>,
    pub(crate) workers: Vec<WorkerPort>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) rule: RetentionRule,
    pub(crate) log: Option<Log>,
    /// The newest epoch; not sealed yet if it is open.
    pub(crate) epoch: Epoch,
    /// What the open epoch has touched so far.
    pub(crate) open: Option<OpenEpoch>,
    pub(crate) in_flight: VecDeque<(Epoch, usize)>,
    pub(crate) rows_in_flight: usize,
    pub(crate) times: VecDeque<(Epoch, Instant)>,
    pub(crate) next_worker: usize,
}

/// What an epoch that has no end yet has taken so far.
#[derive(Debug, Default)]
pub(crate) struct OpenEpoch {
    touched: BTreeSet<CollectionId>,
    rows: usize,
    bytes: usize,
}

/// A checked commit that waits for its group to be on disk.
struct Prepared {
    epoch: Epoch,
    changes: Vec<(CollectionId, Changes)>,
    create_view: Option<Arc<CreateView>>,
    drops: Vec<CollectionId>,
    reply: Option<oneshot::Sender<Result<Epoch>>>,
}

impl Committer {
    pub(crate) fn run(mut self) {
        while let Some(group) = self.next_group() {
            if !self.take_group(group) {
                break;
            }
            self.workers.iter().for_each(WorkerPort::wake);
            self.wait_for_room();
        }
        self.seal_open();
        for worker in &self.workers {
            worker.send(Command::Shutdown);
            worker.wake();
        }
        if let Some(Err(error)) = self.log.take().map(Log::close) {
            tracing::error!("the log has no mark of its end: {}", error.render());
        }
    }

    /// Waits for requests that can be taken now.
    ///
    /// # Returns
    /// `None`: nobody is left who could ask.
    fn next_group(&mut self) -> Option<Vec<Request>> {
        let mut group = Vec::new();
        if self.held.is_empty() {
            self.put(self.requests.recv().ok()?, &mut group);
        } else {
            crossbeam_channel::select! {
                recv(self.requests) -> request => self.put(request.ok()?, &mut group),
                recv(self.visible_moved) -> _ => {}
            }
        }
        while group.len() + self.held.len() < GROUP_MAX
            && let Ok(next) = self.requests.try_recv()
        {
            self.put(next, &mut group);
        }
        let visible = self.progress.visible();
        while self.source_epochs.front().is_some_and(|epoch| *epoch <= visible) {
            self.source_epochs.pop_front();
        }
        let flushes = group.iter().any(|request| match request {
            Request::Flush | Request::Shutdown => true,
            Request::Commit { commit, .. } => commit.is_barrier(),
            _ => false,
        });
        if flushes || self.source_epochs.len() < SOURCE_EPOCHS_MAX {
            group.splice(..0, merge_sources(self.held.drain(..)));
        }
        Some(group)
    }

    /// Puts a request where it waits for its turn: batches of sources apart, others in the group.
    fn put(&mut self, request: Request, group: &mut Vec<Request>) {
        match request {
            Request::Source {
                sealing: Sealing::AtOnce,
                ..
            } => self.held.push_back(request),
            _ => group.push(request),
        }
    }

    /// Commits a group of requests.
    ///
    /// # Returns
    /// Whether to go on.
    fn take_group(&mut self, group: Vec<Request>) -> bool {
        let (mut prepared, mut permits, mut go_on) = (Vec::new(), Vec::new(), true);
        for request in group {
            match request {
                Request::Commit { commit, reply } => match self.prepare(commit) {
                    Ok(done) => prepared.push(Prepared {
                        reply: Some(reply),
                        ..done
                    }),
                    Err(error) => {
                        let _ = reply.send(Err(error));
                    }
                },
                // What comes after a refused batch has later offsets: with it, the refused rows would be skipped at the next start.
                Request::Source { permit, .. } if permit.failure.get().is_some() => {}
                Request::Source {
                    commit,
                    permit,
                    sealing: Sealing::WithNext,
                    ..
                } if self.log.is_none() => {
                    self.release(std::mem::take(&mut prepared));
                    self.take_open(commit, permit);
                }
                Request::Source { commit, permit, .. } => match self.prepare(commit) {
                    Ok(done) => {
                        self.source_epochs.push_back(done.epoch);
                        prepared.push(done);
                        permits.push(permit);
                    }
                    Err(error) => {
                        let _ = permit.failure.set(error);
                    }
                },
                Request::Peek { peeks, reply } => {
                    self.release(std::mem::take(&mut prepared));
                    self.seal_open();
                    peeks.into_iter().for_each(|peek| self.peek(peek));
                    let _ = reply.send(self.epoch);
                }
                Request::Sizes { view, reply } => {
                    self.workers.iter().for_each(|worker| {
                        worker.send(Command::Sizes {
                            view,
                            reply: reply.clone(),
                        })
                    });
                }
                Request::Flush => {}
                Request::Shutdown => go_on = false,
            }
        }
        self.release(prepared);
        go_on
    }

    /// Checks a commit, applies it to the tables held here and appends it to the log.
    fn prepare(&mut self, commit: Commit) -> Result<Prepared> {
        self.seal_open();
        let epoch = self.epoch.next();
        let checked = self.tables.check(&commit, &self.retention)?;
        let changes_nothing = checked.is_empty() && commit.ddl.is_none();
        if let Some(log) = self.log.as_mut().filter(|_| !changes_nothing) {
            let record = self.tables.record(epoch, &commit, &checked)?;
            log.append(&record)?;
        }
        let mut changes = self.tables.apply(epoch, &checked).unwrap_or_else(|error| abort(&error));
        changes.extend(
            commit
                .passing
                .into_iter()
                .map(|(id, rows)| (id, Changes::insertions(rows))),
        );
        let create_view = commit
            .create_view
            .map(|view| self.create_view(view, epoch).unwrap_or_else(|error| abort(&error)));
        for id in &commit.drops {
            self.views.remove(id);
            self.tables.remove(*id);
        }
        self.epoch = epoch;
        Ok(Prepared {
            epoch,
            changes,
            create_view,
            drops: commit.drops,
            reply: None,
        })
    }

    /// Takes a batch into the open epoch.
    fn take_open(&mut self, commit: Commit, permit: SourcePermit) {
        let checked = match self.tables.check(&commit, &self.retention) {
            Ok(checked) => checked,
            Err(error) => {
                let _ = permit.failure.set(error);
                return;
            }
        };
        if self.open.is_none() {
            self.epoch = self.epoch.next();
            self.open = Some(OpenEpoch::default());
        }
        let mut changes = self
            .tables
            .apply(self.epoch, &checked)
            .unwrap_or_else(|error| abort(&error));
        let passing = commit.passing.into_iter();
        changes.extend(passing.map(|(id, rows)| (id, Changes::insertions(rows))));
        let permit = Arc::new(permit);
        for (collection, changes) in changes {
            let open = self.open.get_or_insert_default();
            open.rows += changes.len();
            open.bytes += changes.memory_bytes();
            if open.touched.insert(collection) {
                self.workers.iter().for_each(|worker| {
                    worker.send(Command::Open {
                        epoch: self.epoch,
                        collection,
                    });
                });
            }
            self.deal(self.epoch, collection, changes, Some(&permit));
        }
        let open = self.open.get_or_insert_default();
        if open.rows >= OPEN_ROWS_MAX || open.bytes >= OPEN_BYTES_MAX {
            self.seal_open();
        }
    }

    /// Seals the open epoch, if there is one.
    fn seal_open(&mut self) {
        if let Some(OpenEpoch { touched, rows, .. }) = self.open.take() {
            let touched = touched.into_iter().collect();
            self.seal(self.epoch, rows, &touched);
        }
    }

    fn create_view(&mut self, view: NewView, epoch: Epoch) -> Result<Arc<CreateView>> {
        let mut snapshots = BTreeMap::new();
        for node in &view.plan.nodes {
            let crate::plan::Node::Input { collection, schema } = node else {
                continue;
            };
            let pin = self.retention.pin(epoch.previous())?;
            if let Some(table) = self.views.get(collection) {
                let projection = (0..schema.fields().len()).collect();
                snapshots.insert(
                    *collection,
                    InputSnapshot {
                        table: table.clone(),
                        pin,
                        projection,
                        is_view: true,
                    },
                );
            } else if let Some(table) = self.tables.get(*collection) {
                let projection = (0..schema.fields().len()).collect();
                snapshots.insert(
                    *collection,
                    InputSnapshot {
                        table,
                        pin,
                        projection,
                        is_view: false,
                    },
                );
            }
        }
        self.views.insert(view.id, view.table.clone());
        let NewView {
            id,
            plan,
            status,
            meters,
            table,
            errors,
            is_followed,
            replays,
        } = view;
        Ok(Arc::new(CreateView {
            id,
            plan,
            epoch,
            table,
            errors,
            status,
            meters,
            snapshots,
            is_followed,
            replays,
        }))
    }

    /// Makes a group durable, then lets the workers have it and the writers know.
    fn release(&mut self, group: Vec<Prepared>) {
        if group.is_empty() {
            return;
        }
        if let Some(Err(error)) = self.log.as_mut().map(Log::sync) {
            // The group's effects on memory cannot be taken back and are not durable: going on would lie.
            tracing::error!("{}", error.render());
            for prepared in group {
                if let Some(reply) = prepared.reply {
                    let _ = reply.send(Err(error.clone()));
                }
            }
            std::process::abort();
        }
        for prepared in group {
            self.hand_over(prepared);
        }
        self.apply_retention();
    }

    fn hand_over(&mut self, prepared: Prepared) {
        let Prepared {
            epoch,
            changes,
            create_view,
            drops,
            reply,
        } = prepared;
        let rows = changes.iter().map(|(_, changes)| changes.len()).sum();
        let touched: Arc<[CollectionId]> = changes
            .iter()
            .filter(|(_, changes)| !changes.is_empty())
            .map(|(id, _)| *id)
            .collect();
        if let Some(view) = create_view {
            // Before the rows of its first epoch, which would find no reader otherwise.
            self.workers
                .iter()
                .for_each(|worker| worker.send(Command::CreateView(view.clone())));
        }
        for (collection, changes) in changes {
            self.deal(epoch, collection, changes, None);
        }
        for worker in &self.workers {
            drops.iter().for_each(|id| worker.send(Command::DropView(*id)));
        }
        self.seal(epoch, rows, &touched);
        if let Some(reply) = reply {
            let _ = reply.send(Ok(epoch));
        }
    }

    /// Tells the workers that an epoch has all its rows.
    fn seal(&mut self, epoch: Epoch, rows: usize, touched: &Arc<[CollectionId]>) {
        for worker in &self.workers {
            worker.send(Command::Seal {
                epoch,
                touched: touched.clone(),
            });
        }
        self.in_flight.push_back((epoch, rows));
        self.rows_in_flight += rows;
        self.times.push_back((epoch, Instant::now()));
    }

    /// Deals rows out to the workers: small batches whole, large ones in slices.
    ///
    /// # Arguments
    /// - `permit`: kept until the rows are taken by the views.
    fn deal(&mut self, epoch: Epoch, collection: CollectionId, changes: Changes, permit: Option<&Arc<SourcePermit>>) {
        let chunk = if self.workers.len() == 1 {
            changes.len().max(1)
        } else {
            ROWS_PER_DEAL
        };
        for start in (0..changes.len()).step_by(chunk) {
            let part = changes.slice(start, chunk.min(changes.len() - start));
            self.next_worker = (self.next_worker + 1) % self.workers.len();
            self.workers[self.next_worker].send(Command::Data {
                epoch,
                collection,
                changes: part,
                permit: permit.cloned(),
            });
        }
    }

    fn peek(&mut self, request: PeekRequest) {
        let crate::engine::StateRead {
            view,
            node,
            table,
            keys,
        } = request.read;
        let peek = Arc::new(Peek {
            view,
            node,
            table,
            keys,
            epoch: self.epoch,
            reply: request.answers,
        });
        self.workers
            .iter()
            .for_each(|worker| worker.send(Command::Peek(peek.clone())));
    }

    fn apply_retention(&mut self) {
        let visible = self.progress.visible();
        let oldest = visible.0.saturating_sub(self.rule.epochs);
        let now = Instant::now();
        while let Some((epoch, time)) = self.times.front()
            && epoch.0 < oldest
            && now.duration_since(*time) >= self.rule.time
        {
            self.retention.keep_from(*epoch);
            self.times.pop_front();
        }
    }

    /// Blocks while too much is ahead of the slowest view.
    fn wait_for_room(&mut self) {
        loop {
            let finished = self.progress.finished();
            while let Some((epoch, rows)) = self.in_flight.front()
                && *epoch <= finished
            {
                self.rows_in_flight -= rows;
                self.in_flight.pop_front();
            }
            let first = match self.in_flight.front() {
                Some((first, _)) if self.in_flight.len() as u64 > EPOCHS_IN_FLIGHT_MAX => *first,
                Some((first, _)) if self.rows_in_flight > ROWS_IN_FLIGHT_MAX => *first,
                _ => return,
            };
            self.progress.wait_finished(|finished| finished >= first);
        }
    }
}

/// Joins the batches of each source into one epoch, in the order that the sources' first batches came.
fn merge_sources(batches: impl Iterator<Item = Request>) -> Vec<Request> {
    let mut merged: Vec<Request> = Vec::new();
    for request in batches {
        let Request::Source {
            source, commit, permit, ..
        } = request
        else {
            merged.push(request);
            continue;
        };
        let earlier = merged.iter_mut().find_map(|earlier| match earlier {
            Request::Source {
                source: its,
                commit: into,
                ..
            } if *its == source => Some(into),
            _ => None,
        });
        match earlier {
            Some(into) => into.absorb(commit),
            None => merged.push(Request::Source {
                source,
                commit,
                sealing: Sealing::AtOnce,
                permit,
            }),
        }
    }
    merged
}

impl Commit {
    /// Whether it changes nothing: who sends it waits for what was committed or handed over before it.
    fn is_barrier(&self) -> bool {
        self.writes.is_empty()
            && self.passing.is_empty()
            && self.ddl.is_none()
            && self.create_tables.is_empty()
            && self.create_view.is_none()
            && self.drops.is_empty()
    }

    /// Takes in a later commit of the same source.
    fn absorb(&mut self, later: Commit) {
        for write in later.writes {
            match self.writes.iter_mut().find(|mine| mine.table == write.table) {
                Some(mine) => mine.inserts.extend(write.inserts),
                None => self.writes.push(write),
            }
        }
        self.passing.extend(later.passing);
    }
}

/// Ends the process: what is in the log must happen, and did not.
fn abort(error: &Error) -> ! {
    tracing::error!("{}", error.render());
    std::process::abort();
}

pub(crate) fn changed_since(table: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        "TABLE-0102",
        format!("cannot commit: a row of `{table}` was changed by another transaction since it was read"),
    )
    .sqlstate("40001")
    .attempt("run the transaction again")
}
