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
//! 6. What is ahead of the slowest view is bounded in rows and epochs (`flight`). An open epoch may have more rows, as views take them
//!    on the way; it has a bound of its own (`open`).
//!
//! # Not here
//! SQL, and what a row must satisfy beyond its key (`query`); the log's format ([`cenote_statestore::wal`]).

mod commit;
mod filling;
mod flight;
mod held;
mod keys;
mod open;
mod routes;
mod tables;

use crate::engine::{Logged, Sealed, StateFound, StateRead};
use crate::memory::MemoryGuard;
use crate::plan::CollectionId;
use crate::progress::Progress;
use crate::worker::{Command, CreateView, InputSnapshot, Peek, SwitchView, WorkerPort};
use cenote_statestore::wal::Log;
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result, Retention, VersionedTable};
pub use commit::{Alter, Commit, NewView, OnConflict, Replaces, Rewrite, Sealing, Switch, TableWrite};
use crossbeam_channel::{Receiver, Sender};
pub use filling::Filling;
pub(crate) use flight::InFlight;
pub(crate) use held::Held;
pub use keys::{RowKey, row_keys};
pub(crate) use open::OpenEpoch;
pub(crate) use routes::Routes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use tables::{ROW_ID, is_row_numbered, visible_columns};
pub(crate) use tables::{Tables, ddl_of};
use tokio::sync::{mpsc, oneshot};

/// Requests taken into one group, which shares an fsync.
const GROUP_MAX: usize = 1024;

/// Rows of one chunk when a batch is dealt out to several workers.
const ROWS_PER_DEAL: usize = 16 * 1024;

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
        reply: oneshot::Sender<Sealed>,
    },
    /// Batches of sources are not to wait for views any longer; answered with the epoch of the last of them.
    Flush(oneshot::Sender<Epoch>),
    Sizes {
        view: CollectionId,
        reply: mpsc::UnboundedSender<crate::worker::OperatorSizes>,
    },
    /// Records of the log before this one are in a checkpoint.
    ForgetBefore(u64),
    /// A view that is there at the newest epoch already.
    Attach {
        view: Box<NewView>,
        /// Gets the epoch.
        reply: oneshot::Sender<Result<Epoch>>,
    },
    /// A commit of the log that the engine starts before.
    Again {
        logged: Box<Logged>,
        reply: oneshot::Sender<Result<()>>,
    },
    Shutdown,
}

pub(crate) struct PeekRequest {
    pub(crate) read: StateRead,
    pub(crate) answers: mpsc::UnboundedSender<Result<StateFound>>,
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
    /// At least this long, unless memory is short.
    pub time: Duration,
}

pub(crate) struct Committer {
    pub(crate) requests: Receiver<Request>,
    /// Has a token after the visible epoch has moved.
    pub(crate) visible_moved: Receiver<()>,
    pub(crate) held: Held,
    pub(crate) tables: Tables,
    pub(crate) views: BTreeMap<CollectionId, Arc<VersionedTable>>,
    pub(crate) routes: Routes,
    pub(crate) workers: Vec<WorkerPort>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) rule: RetentionRule,
    pub(crate) memory: Arc<MemoryGuard>,
    pub(crate) log: Option<Log>,
    /// The newest epoch; not sealed yet if it is open.
    pub(crate) epoch: Epoch,
    /// What the open epoch has touched so far.
    pub(crate) open: Option<OpenEpoch>,
    pub(crate) in_flight: InFlight,
    pub(crate) times: VecDeque<(Epoch, Instant)>,
    pub(crate) next_worker: usize,
}

/// A checked commit that waits for its group to be on disk.
struct Prepared {
    epoch: Epoch,
    changes: Vec<(CollectionId, Changes)>,
    create_view: Option<Arc<CreateView>>,
    switch: Option<SwitchView>,
    drops: Vec<CollectionId>,
    reply: Option<oneshot::Sender<Result<Epoch>>>,
}

/// What goes with the rows of a batch.
struct Dealing {
    /// Kept until the rows are taken by the views.
    permit: Option<Arc<SourcePermit>>,
    /// Views that the rows do not matter to.
    unmoved: Arc<[CollectionId]>,
}

impl Dealing {
    fn sealed(unmoved: &Arc<[CollectionId]>) -> Dealing {
        Dealing {
            permit: None,
            unmoved: unmoved.clone(),
        }
    }
}

impl Committer {
    pub(crate) fn run(mut self) {
        while let Some(group) = self.next_group() {
            if !self.take_group(group) {
                break;
            }
            self.workers.iter().for_each(WorkerPort::wake);
            self.in_flight.wait_for_room(&self.progress);
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
        if self.held.len() == 0 {
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
        let flushes = group.iter().any(|request| match request {
            Request::Flush(_) | Request::Shutdown => true,
            Request::Commit { commit, .. } => commit.is_barrier(),
            _ => false,
        });
        group.splice(..0, self.held.due(self.progress.visible(), flushes));
        Some(group)
    }

    /// Puts a request where it waits for its turn: batches of sources apart, others in the group.
    fn put(&mut self, request: Request, group: &mut Vec<Request>) {
        match request {
            Request::Source {
                sealing: Sealing::AtOnce,
                ..
            } => self.held.push(request),
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
                        self.held.committed(done.epoch);
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
                    let _ = reply.send(Sealed {
                        epoch: self.epoch,
                        next_record: self.log.as_ref().map(Log::next_lsn),
                    });
                }
                Request::ForgetBefore(record) => {
                    if let Some(Err(error)) = self.log.as_mut().map(|log| log.forget_before(record)) {
                        tracing::warn!("the log keeps what it need not: {}", error.render());
                    }
                }
                Request::Sizes { view, reply } => {
                    self.workers.iter().for_each(|worker| {
                        worker.send(Command::Sizes {
                            view,
                            reply: reply.clone(),
                        })
                    });
                }
                Request::Flush(reply) => {
                    let _ = reply.send(self.epoch);
                }
                Request::Attach { view, reply } => {
                    self.release(std::mem::take(&mut prepared));
                    self.seal_open();
                    let _ = reply.send(self.attach(*view));
                }
                Request::Again { logged, reply } => {
                    let done = self.prepare_again(*logged);
                    let _ = reply.send(done.map(|done| prepared.push(done)));
                }
                Request::Shutdown => go_on = false,
            }
        }
        self.release(prepared);
        go_on
    }

    /// Starts a view that is there at the newest epoch already.
    fn attach(&mut self, view: NewView) -> Result<Epoch> {
        let attached = self.create_view(view, self.epoch, self.epoch)?;
        let workers = self.workers.iter();
        workers.for_each(|worker| worker.send(Command::CreateView(attached.clone())));
        Ok(self.epoch)
    }

    /// Checks a commit, applies it to the tables held here and appends it to the log.
    fn prepare(&mut self, commit: Commit) -> Result<Prepared> {
        self.seal_open();
        let epoch = self.epoch.next();
        let checked = self.tables.check(&commit, &self.retention)?;
        let altered = match &commit.alter {
            Some(alter) => Some(self.tables.altered(alter, epoch, &self.retention)?),
            None => None,
        };
        let changes_nothing = checked.is_empty() && commit.ddl.is_none();
        if let Some(log) = self.log.as_mut().filter(|_| !changes_nothing) {
            let record = self.tables.record(epoch, &commit, &checked)?;
            log.append(&record)?;
        }
        altered.into_iter().for_each(|altered| self.tables.put(altered));
        let mut changes = self.tables.apply(epoch, &checked).unwrap_or_else(|error| abort(&error));
        changes.extend(
            commit
                .passing
                .into_iter()
                .map(|(id, rows)| (id, Changes::insertions(rows))),
        );
        let create_view = commit.create_view.map(|view| {
            self.create_view(view, epoch, epoch.previous())
                .unwrap_or_else(|error| abort(&error))
        });
        let switch = commit.switch.map(|switch| self.switch(&switch, epoch));
        self.forget(&commit.drops);
        self.epoch = epoch;
        Ok(Prepared {
            epoch,
            changes,
            create_view,
            switch: switch.transpose().unwrap_or_else(|error| abort(&error)),
            drops: commit.drops,
            reply: None,
        })
    }

    /// Applies a commit of the log again, as the epoch that it was.
    fn prepare_again(&mut self, logged: Logged) -> Result<Prepared> {
        let Logged {
            record,
            unless_writes,
            create_tables,
            create_view,
            switch,
            alter,
            drops,
        } = logged;
        for (id, table) in create_tables {
            self.tables.add(id, table);
        }
        if let Some(alter) = &alter {
            let altered = self.tables.altered(alter, record.epoch, &self.retention)?;
            self.tables.put(altered);
        }
        let writes = self.tables.logged_writes(&record, &unless_writes)?;
        self.epoch = record.epoch;
        let changes = self
            .tables
            .apply(self.epoch, &writes)
            .unwrap_or_else(|error| abort(&error));
        let create_view = create_view.map(|view| self.create_view(view, self.epoch, self.epoch.previous()));
        let create_view = create_view.transpose()?;
        let switch = switch.map(|switch| self.switch(&switch, self.epoch)).transpose()?;
        self.forget(&drops);
        Ok(Prepared {
            epoch: self.epoch,
            changes,
            create_view,
            switch,
            drops,
            reply: None,
        })
    }

    /// Lets a view take another one's place from an epoch on.
    fn switch(&mut self, switch: &Switch, epoch: Epoch) -> Result<SwitchView> {
        let Switch { old, new, plan, meters } = switch;
        [old, new].into_iter().for_each(|view| self.routes.remove(*view));
        self.views.remove(new);
        self.routes.add(*old, plan, meters);
        Ok(SwitchView {
            old: *old,
            new: *new,
            epoch,
            before: self.retention.pin(epoch.previous())?,
        })
    }

    fn forget(&mut self, dropped: &[CollectionId]) {
        for id in dropped {
            self.views.remove(id);
            self.routes.remove(*id);
            self.tables.remove(*id);
        }
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
        let dealing = Dealing {
            permit: Some(Arc::new(permit)),
            unmoved: Arc::default(),
        };
        for (collection, changes) in changes {
            if self.open.get_or_insert_default().add(collection, &changes) {
                self.workers.iter().for_each(|worker| {
                    worker.send(Command::Open {
                        epoch: self.epoch,
                        collection,
                    });
                });
            }
            self.deal(self.epoch, collection, changes, &dealing);
        }
        if self.open.as_ref().is_some_and(OpenEpoch::is_full) {
            self.seal_open();
        }
    }

    /// Seals the open epoch, if there is one.
    fn seal_open(&mut self) {
        if let Some(open) = self.open.take() {
            self.seal(self.epoch, open.rows(), &open.touched(), &Arc::default());
        }
    }

    /// # Arguments
    /// - `epoch`: of its first contents. `inputs_at`: of those of its inputs that it begins with.
    fn create_view(&mut self, view: NewView, epoch: Epoch, inputs_at: Epoch) -> Result<Arc<CreateView>> {
        let mut snapshots = BTreeMap::new();
        for node in &view.plan.nodes {
            let crate::plan::Node::Input { collection, schema } = node else {
                continue;
            };
            let pin = self.retention.pin(inputs_at)?;
            let view = self.views.get(collection).cloned();
            let is_view = view.is_some();
            if let Some(table) = view.or_else(|| self.tables.get(*collection)) {
                let projection = (0..schema.fields().len()).collect();
                let snapshot = InputSnapshot {
                    table,
                    pin,
                    projection,
                    is_view,
                };
                snapshots.insert(*collection, snapshot);
            }
        }
        self.views.insert(view.id, view.table.clone());
        self.routes.add(view.id, &view.plan, &view.meters);
        let NewView {
            id,
            plan,
            status,
            meters,
            table,
            errors,
            is_followed,
            replays,
            state,
            replaces,
            spill,
        } = view;
        let before = match replaces {
            Some(_) => Some(self.retention.pin(inputs_at)?),
            None => None,
        };
        Ok(Arc::new(CreateView {
            id,
            plan,
            epoch,
            inputs_at,
            state,
            table,
            errors,
            status,
            meters,
            snapshots,
            is_followed,
            replays,
            replaces,
            before,
            spill,
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
            switch,
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
        let unmoved = self.routes.unmoved(&changes);
        for (collection, changes) in changes {
            self.deal(epoch, collection, changes, &Dealing::sealed(&unmoved));
        }
        for worker in &self.workers {
            if let Some(switch) = &switch {
                worker.send(Command::Switch(switch.clone()));
            }
            drops.iter().for_each(|id| worker.send(Command::DropView(*id)));
        }
        self.seal(epoch, rows, &touched, &unmoved);
        if let Some(reply) = reply {
            let _ = reply.send(Ok(epoch));
        }
    }

    /// Tells the workers that an epoch has all its rows.
    ///
    /// # Arguments
    /// - `touched`: collections with changes in it. `unmoved`: their readers that those do not matter to.
    fn seal(&mut self, epoch: Epoch, rows: usize, touched: &Arc<[CollectionId]>, unmoved: &Arc<[CollectionId]>) {
        for worker in &self.workers {
            worker.send(Command::Seal {
                epoch,
                touched: touched.clone(),
                unmoved: unmoved.clone(),
            });
        }
        self.in_flight.push(epoch, rows);
        self.times.push_back((epoch, Instant::now()));
        self.progress.note_sealed(epoch);
    }

    /// Deals rows out to the workers: small batches whole, large ones in slices.
    fn deal(&mut self, epoch: Epoch, collection: CollectionId, changes: Changes, dealing: &Dealing) {
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
                permit: dealing.permit.clone(),
                unmoved: dealing.unmoved.clone(),
            });
        }
    }

    fn peek(&mut self, request: PeekRequest) {
        let StateRead {
            view,
            started_as,
            node,
            table,
            rows,
        } = request.read;
        let peek = Arc::new(Peek {
            view,
            started_as,
            node,
            table,
            rows,
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
            && (now.duration_since(*time) >= self.rule.time || self.memory.is_short())
        {
            self.retention.keep_from(*epoch);
            self.times.pop_front();
        }
        self.progress.forget_sealed_before(self.retention.kept_from());
    }
}

/// Ends the process: what is in the log must happen, and did not.
fn abort(error: &Error) -> ! {
    tracing::error!("{}", error.render());
    std::process::abort();
}

pub(crate) fn altered_since(table: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        "TABLE-0109",
        format!("cannot commit: the columns of `{table}` were altered by another session since the transaction began"),
    )
    .sqlstate("40001")
    .attempt("run the transaction again")
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
