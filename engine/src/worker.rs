//! A worker thread: one timely worker, the views on it, and the loop that drives them.
//!
//! # Rules kept here
//! 1. Every worker gets the same commands in the same order, so dataflows are created alike everywhere.
//! 2. A view's inputs advance only when an epoch touches the view; an idle view costs nothing.
//! 3. A view that reads a view gets its net changes of an epoch when every worker has published that epoch.
//! 4. State is read between steps, when the view has finished the asked epoch and before it is given a later one.
//!
//! # Not here
//! Numbering epochs (`committer`); operators (`dataflow`).

mod replace;
mod view;

use crate::committer::{Replaces, SourcePermit};
use crate::dataflow::{BuiltInput, BuiltView};
use crate::engine::{StateFound, StateRows};
use crate::meters::ViewMeters;
use crate::packet::Packet;
use crate::plan::{CollectionId, ViewPlan};
use crate::progress::Progress;
use crate::replay::ReplayInput;
use crate::restore::{Share, ViewState};
use crate::status::ViewStatus;
use cenote_statestore::spill::Spill;
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Pin, Result, VersionedTable};
use crossbeam_channel::{Receiver, Sender};
use replace::Replacements;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};
use timely::WorkerConfig;
use timely::communication::Allocator;
use timely::communication::allocator::ProcessBuilder;
use timely::worker::Worker as TimelyWorker;
use tokio::sync::mpsc::UnboundedSender;
use view::View;

/// Commands taken before the dataflows get their turn.
const COMMANDS_PER_TURN: usize = 256;

/// Rows that may wait in a view's operators before sources that feed an open epoch have to wait too.
const ROWS_WAITING_MAX: usize = 256 * 1024;

/// What a worker is told.
#[derive(Clone)]
pub(crate) enum Command {
    CreateView(Arc<CreateView>),
    DropView(CollectionId),
    /// Changes of a table or source; this worker's part.
    Data {
        epoch: Epoch,
        collection: CollectionId,
        changes: Changes,
        /// Kept until the views have taken the changes, where the epoch is open.
        permit: Option<Arc<SourcePermit>>,
        /// Readers of the collection that the changes do not matter to, ascending.
        unmoved: Arc<[CollectionId]>,
    },
    /// Changes of a collection come in an epoch that may stay open for long: what has come is worked on.
    Open {
        epoch: Epoch,
        collection: CollectionId,
    },
    /// No more changes of this epoch follow; the collections that it touched.
    Seal {
        epoch: Epoch,
        touched: Arc<[CollectionId]>,
        /// Their readers that nothing in it matters to, ascending.
        unmoved: Arc<[CollectionId]>,
    },
    /// A view takes another one's place.
    Switch(SwitchView),
    Peek(Arc<Peek>),
    Sizes {
        view: CollectionId,
        reply: UnboundedSender<OperatorSizes>,
    },
    Shutdown,
}

/// A view to create.
pub(crate) struct CreateView {
    pub(crate) id: CollectionId,
    pub(crate) plan: ViewPlan,
    /// The epoch of its first contents.
    pub(crate) epoch: Epoch,
    /// The epoch of its inputs' contents that those are made of; changes after it follow.
    pub(crate) inputs_at: Epoch,
    /// The state that it goes on from, instead of its inputs' contents.
    pub(crate) state: Option<ViewState>,
    pub(crate) table: Arc<VersionedTable>,
    pub(crate) errors: Option<Arc<VersionedTable>>,
    pub(crate) status: Arc<ViewStatus>,
    pub(crate) meters: Arc<ViewMeters>,
    /// Contents of each input at `inputs_at`; sources have none.
    pub(crate) snapshots: BTreeMap<CollectionId, InputSnapshot>,
    /// Whether anything follows its changes ([`crate::NewView`]).
    pub(crate) is_followed: bool,
    /// Rows of sources up to `inputs_at`, which worker 0 takes for all.
    pub(crate) replays: BTreeMap<CollectionId, ReplayInput>,
    /// A running view whose state it goes on with.
    pub(crate) replaces: Option<Replaces>,
    /// That view at `inputs_at`.
    pub(crate) before: Option<Pin>,
    /// Where its operators' state may go.
    pub(crate) spill: Option<Spill>,
}

/// A view that takes another one's place.
#[derive(Clone)]
pub(crate) struct SwitchView {
    pub(crate) old: CollectionId,
    pub(crate) new: CollectionId,
    /// From which epoch on.
    pub(crate) epoch: Epoch,
    /// The epoch before.
    pub(crate) before: Pin,
}

/// The contents of an input that a view begins with.
#[derive(Clone)]
pub(crate) struct InputSnapshot {
    pub(crate) table: Arc<VersionedTable>,
    pub(crate) pin: Pin,
    /// Columns of the table that the input has.
    pub(crate) projection: Vec<usize>,
    /// Whether the input is a view, with one shard per worker, rather than a table held by the committer.
    pub(crate) is_view: bool,
}

/// A read of an operator's state.
pub(crate) struct Peek {
    pub(crate) view: CollectionId,
    /// What the view was when it was started.
    pub(crate) started_as: CollectionId,
    pub(crate) node: usize,
    pub(crate) table: usize,
    pub(crate) rows: StateRows,
    pub(crate) epoch: Epoch,
    pub(crate) reply: UnboundedSender<Result<StateFound>>,
}

/// Rows and bytes of a view's state tables on one worker: node, table, rows, bytes.
pub(crate) type OperatorSizes = Vec<(usize, usize, u64, u64)>;

/// The sending side of a worker's commands.
#[derive(Clone)]
pub(crate) struct WorkerPort {
    commands: Sender<Command>,
    thread: Thread,
}

impl WorkerPort {
    pub(crate) fn send(&self, command: Command) {
        // A worker that is gone has ended the process or is being joined; nobody waits for an answer.
        let _ = self.commands.send(command);
    }

    pub(crate) fn wake(&self) {
        self.thread.unpark();
    }
}

/// Starts the workers of this process.
///
/// # Returns
/// Their ports and join handles, in order.
pub(crate) fn start(
    workers: usize,
    progress: Arc<Progress>,
) -> Result<(Vec<WorkerPort>, Vec<std::thread::JoinHandle<()>>)> {
    let refill = timely::communication::allocator::zero_copy::bytes_slab::BytesRefill {
        logic: Arc::new(|size| Box::new(vec![0u8; size])),
        limit: None,
    };
    let mut started = (Vec::new(), Vec::new());
    for (index, builder) in ProcessBuilder::new_typed_vector(workers, refill, None)
        .into_iter()
        .enumerate()
    {
        let (commands, receiver) = crossbeam_channel::unbounded();
        let progress = progress.clone();
        let handle = std::thread::Builder::new()
            .name(format!("cenote-worker-{index}"))
            .stack_size(crate::THREAD_STACK_BYTES)
            .spawn(move || or_abort(|| Worker::new(builder, receiver, progress, index).run()))
            .map_err(Error::from)?;
        started.0.push(WorkerPort {
            commands,
            thread: handle.thread().clone(),
        });
        started.1.push(handle);
    }
    Ok(started)
}

/// Runs a worker; one that panics outside of a view's own operators ends the process, as others wait for it for ever.
pub(crate) fn or_abort(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("a worker panicked: the process ends, and recovers from its log when it is started again");
        std::process::abort();
    }
}

struct Worker {
    timely: TimelyWorker,
    commands: Receiver<Command>,
    progress: Arc<Progress>,
    index: usize,
    /// Ascending by id: a view comes after the views it reads.
    views: BTreeMap<CollectionId, View>,
    /// The views that read a collection.
    readers: BTreeMap<CollectionId, BTreeSet<CollectionId>>,
    sealed: Epoch,
    /// Of batches that views may still have to take.
    permits: Vec<Arc<SourcePermit>>,
    replacements: Replacements,
    shutdown: bool,
}

impl Worker {
    fn new(builder: ProcessBuilder, commands: Receiver<Command>, progress: Arc<Progress>, index: usize) -> Worker {
        let allocator = Allocator::Process(builder.build());
        let timely = TimelyWorker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
        let sealed = progress.visible();
        let (views, readers) = (BTreeMap::new(), BTreeMap::new());
        Worker {
            timely,
            commands,
            progress,
            index,
            views,
            readers,
            sealed,
            permits: Vec::new(),
            replacements: Replacements::default(),
            shutdown: false,
        }
    }

    fn run(mut self) {
        loop {
            let mut busy = self.take_commands();
            if self.shutdown {
                break;
            }
            busy |= self.drive();
            busy |= self.settle();
            busy |= self.replace();
            // Before the worker may park: rows that no view reads wake nobody.
            if !self.permits.is_empty() && self.views.values().all(|view| view.rows_waiting() < ROWS_WAITING_MAX) {
                self.permits.clear();
            }
            self.timely.step_or_park(busy.then_some(Duration::ZERO));
        }
        let dataflows: Vec<usize> = self.views.values().map(View::dataflow).collect();
        self.views.clear();
        dataflows
            .into_iter()
            .for_each(|dataflow| self.timely.drop_dataflow(dataflow));
    }

    /// Takes commands that have arrived.
    ///
    /// # Returns
    /// Whether there may be more.
    fn take_commands(&mut self) -> bool {
        for _ in 0..COMMANDS_PER_TURN {
            if self.replacements.is_switching() {
                return false;
            }
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::CreateView(request) => self.create(&request),
            Command::DropView(id) => self.drop_view(id),
            Command::Data {
                epoch,
                collection,
                changes,
                permit,
                unmoved,
            } => {
                self.offer(collection, epoch, &changes, &unmoved);
                self.permits.extend(permit);
            }
            Command::Open { epoch, collection } => self.touch(epoch, &[collection], &[], true),
            Command::Seal {
                epoch,
                touched,
                unmoved,
            } => {
                self.sealed = epoch;
                self.touch(epoch, &touched, &unmoved, false);
            }
            Command::Switch(switch) => self.begin_switch(switch),
            Command::Peek(peek) => match self.views.get_mut(&peek.view) {
                Some(view) if view.started_as() == peek.started_as => view.register(peek),
                _ => refuse(&peek),
            },
            Command::Sizes { view, reply } => {
                let _ = reply.send(self.views.get(&view).map(View::sizes).unwrap_or_default());
            }
            Command::Shutdown => self.shutdown = true,
        }
    }

    fn create(&mut self, request: &CreateView) {
        let dataflow = self.timely.next_dataflow_index();
        let built = self
            .timely
            .dataflow::<u64, _, _>(|scope| crate::dataflow::build(scope, request));
        match built {
            Ok(built) => {
                if let Err(error) = self.load(request, &built) {
                    request.status.fail(error);
                }
                let view = View::new(request, built, dataflow, self.index);
                for collection in view.collections() {
                    self.readers.entry(collection).or_default().insert(request.id);
                }
                self.views.insert(request.id, view);
                self.fail_with_inputs(request.id);
                self.await_state(request);
            }
            Err(error) => {
                request.status.fail(error);
                self.timely.drop_dataflow(dataflow);
            }
        }
        self.sealed = self.sealed.max(request.epoch);
    }

    /// Gives a view the state that it goes on from.
    fn load(&self, request: &CreateView, built: &BuiltView) -> Result<()> {
        let Some(state) = &request.state else {
            return Ok(());
        };
        let share = Share {
            worker: self.index,
            workers: self.timely.peers(),
        };
        state.load_operators(&request.plan, &built.kernels, share)?;
        state.load_tables(&request.table, request.errors.as_deref(), request.epoch, share)
    }

    fn drop_view(&mut self, id: CollectionId) {
        if let Some(view) = self.views.remove(&id) {
            let dataflow = view.dataflow();
            for collection in view.collections() {
                self.readers.entry(collection).and_modify(|readers| {
                    readers.remove(&id);
                });
            }
            view.waiting().for_each(refuse);
            drop(view);
            self.timely.drop_dataflow(dataflow);
        }
    }

    /// Notes which views an epoch touches, directly or through other views.
    fn touch(&mut self, epoch: Epoch, touched: &[CollectionId], unmoved: &[CollectionId], is_open: bool) {
        let (mut open, mut reached) = (Vec::new(), BTreeSet::new());
        for collection in touched {
            let readers = self.readers.get(collection).into_iter().flatten();
            let moved = readers.filter(|reader| unmoved.binary_search(reader).is_err());
            open.extend(moved.filter(|reader| reached.insert(**reader)));
        }
        while let Some(view) = open.pop() {
            let readers = self.readers.get(&view).into_iter().flatten();
            open.extend(readers.filter(|reader| reached.insert(**reader)));
        }
        for id in reached {
            let view = self.views.get_mut(&id).expect("a reader is a view");
            view.touch(epoch, is_open);
        }
    }

    /// Queues changes of a collection for the views that read it.
    fn offer(&mut self, collection: CollectionId, epoch: Epoch, changes: &Changes, unmoved: &[CollectionId]) {
        let readers = self.readers.get(&collection).into_iter().flatten();
        for id in readers.filter(|id| unmoved.binary_search(id).is_err()) {
            self.views
                .get_mut(id)
                .expect("a reader is a view")
                .offer(collection, epoch, changes);
        }
    }

    /// Fails a view if a view that it reads has failed: what it would hold from then on is no batch answer.
    fn fail_with_inputs(&self, id: CollectionId) {
        let view = &self.views[&id];
        for input in view.inputs().filter_map(|input| self.views.get(&input)) {
            if let Some(error) = input.status().failure() {
                view.fail_with(input, error);
            }
        }
    }

    /// Feeds views what has arrived for them.
    ///
    /// # Returns
    /// Whether a view still reads its inputs' contents.
    fn drive(&mut self) -> bool {
        let mut backfilling = false;
        let ids: Vec<CollectionId> = self
            .views
            .iter()
            .filter(|(_, view)| view.is_awake())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let bounds = self.input_bounds(id);
            let view = self.views.get_mut(&id).expect("listed above");
            backfilling |= view.feed(&bounds);
        }
        backfilling
    }

    /// For each input of a view that is a view: the first epoch whose changes it still owes.
    fn input_bounds(&self, id: CollectionId) -> BTreeMap<CollectionId, u64> {
        let inputs = self.views[&id].inputs();
        inputs
            .filter_map(|input| {
                self.views
                    .get(&input)
                    .map(|view| (input, view.first_outstanding().unwrap_or(u64::MAX)))
            })
            .collect()
    }

    /// Hands finished epochs on to readers: views, waiting peeks, and the visible epoch.
    ///
    /// # Returns
    /// Whether views were given something to do.
    fn settle(&mut self) -> bool {
        let ids: Vec<CollectionId> = self
            .views
            .iter()
            .filter(|(_, view)| view.has_outstanding())
            .map(|(id, _)| *id)
            .collect();
        let mut woken = false;
        for id in ids {
            let Some(published) = self.views.get_mut(&id).expect("listed above").finish_epochs() else {
                continue;
            };
            published
                .iter()
                .for_each(|(epoch, changes)| self.offer(id, Epoch(*epoch), changes, &[]));
            for reader in self.readers.get(&id).into_iter().flatten() {
                woken = true;
                // Before the reader gets to an epoch that its input did not finish well.
                self.fail_with_inputs(*reader);
                self.views.get_mut(reader).expect("a reader is a view").wake();
            }
        }
        for view in self.views.values_mut() {
            woken |= view.answer_peeks();
        }
        if self.index == 0 {
            self.publish_progress();
        }
        woken
    }

    /// A view that is not live yet holds the visible epoch from its first contents on, or under steady commits it
    /// would never be as far as the others.
    fn publish_progress(&mut self) {
        let (mut visible, mut finished) = (self.sealed.0, self.sealed.0);
        for view in self.views.values().filter(|view| !view.status().is_failed()) {
            finished = finished.min(view.done());
            if view.has_caught_up() {
                visible = visible.min(view.done());
            }
        }
        let visible = Epoch(visible).max(self.progress.visible());
        self.progress.publish(visible, Epoch(finished));
        // A view is live once a reader of the visible epoch finds its contents there.
        let waiting = self.views.values().filter(|view| !view.status().is_live());
        waiting
            .filter(|view| view.has_caught_up() && view.is_within(visible))
            .for_each(|view| view.status().set_live());
    }
}

/// Answers a read of a view that is gone.
fn refuse(peek: &Arc<Peek>) {
    let text = format!(
        "cannot read state of view {}: it was dropped or replaced meanwhile",
        peek.view
    );
    // The reader may have gone away.
    let _ = peek.reply.send(Err(
        Error::new(ErrorKind::Conflict, "ENGINE-0003", text).sqlstate("42P01")
    ));
}

fn send(input: &mut BuiltInput, meters: &ViewMeters, epoch: u64, changes: Changes) {
    meters.of(input.node).gave(changes.len());
    if *input.handle.time() < epoch {
        input.handle.advance_to(epoch);
    }
    input.handle.send_batch(&mut Packet::new(changes));
}
