//! Builds the timely dataflow of one view on one worker.
//!
//! # Rules kept here
//! 1. A stateful operator works on one epoch after the other, [`ROWS_PER_ACTIVATION`] rows at most before it yields to other
//!    dataflows. It takes the changes of the lowest epoch as they come, so that an epoch needs no memory for rows that wait,
//!    and finishes the epoch when its frontier has passed it; changes of later epochs wait.
//! 2. No operator takes changes of an epoch that this worker's inputs have not reached ([`BuiltView::reached`]), though other
//!    workers may have sent some: who reads state here finds that of one epoch.
//! 3. An error or a panic in one operator marks its view as failed; the operator then only lets epochs pass, so
//!    every other view goes on.
//!
//! # Not here
//! What operators compute ([`crate::kernel`]); when inputs advance (`worker`).

mod map;
mod publish;

use crate::keep::Kept;
use crate::kernel::{AggregateKernel, JoinKernel, Kernel, SpillKernel, TopNKernel};
use crate::meters::{OperatorMeter, ViewMeters};
use crate::packet::{HashDistributor, Packet};
use crate::plan::{CollectionId, Node};
use crate::row_errors::{first_of, is_overflow, too_long};
use crate::status::ViewStatus;
use crate::worker::CreateView;
use cenote_statestore::spill::Spill;
use cenote_statestore::{Changes, Epoch, Error, Result, hash_rows, shard_of};
pub(crate) use publish::Publish;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::operators::core::Concatenate;
use timely::dataflow::operators::core::input::Handle as TimelyInput;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::{Capability, Input, InputCapability, Probe};
use timely::dataflow::{ProbeHandle, Scope, Stream};
use timely::progress::operate::FrontierInterest;
use timely::scheduling::Activator;

/// Rows that an operator works on before it yields.
const ROWS_PER_ACTIVATION: usize = 64 * 1024;

/// Rows given to a kernel at once; fewer where it took fewer the last time, as a join of a frequent key does.
const ROWS_PER_PUSH: usize = 4 * 1024;

pub(crate) type InputHandle = TimelyInput<u64, NoopBuilder<Packet>>;
type PacketStream<'scope> = Stream<'scope, u64, Packet>;

/// Net changes that a view's last operator has applied on this worker, oldest first.
pub(crate) type Published = Rc<RefCell<VecDeque<(u64, Changes)>>>;

/// A stateful operator as the worker reads it between steps.
pub(crate) type SharedKernel = Rc<RefCell<dyn Kernel>>;

/// Changes that an operator takes with its first epoch beside those that come to it.
pub(crate) type Added = Rc<RefCell<Vec<(usize, Changes)>>>;

/// What the worker drives and reads of a built view.
pub(crate) struct BuiltView {
    /// Inputs in the order of the plan's input nodes.
    pub(crate) inputs: Vec<BuiltInput>,
    /// Rows of the constants, by position in `inputs`.
    pub(crate) constants: Vec<(usize, Changes)>,
    pub(crate) probe: ProbeHandle<u64>,
    /// Stateful operators by plan node.
    pub(crate) kernels: BTreeMap<usize, SharedKernel>,
    pub(crate) published: Published,
    /// What gives the view's rows to readers.
    pub(crate) publisher: Rc<RefCell<Publish>>,
    /// For views that go on with state of another one: what is added to operators' first epochs, by plan node.
    pub(crate) added: BTreeMap<usize, Added>,
    /// The same for the errors of rows.
    pub(crate) added_errors: Added,
    /// The last epoch that the inputs of this worker have been sent rows of.
    pub(crate) reached: Rc<Cell<u64>>,
    /// Rows that wait in its operators.
    pub(crate) waiting: Rc<Cell<usize>>,
    /// Wake its stateful operators.
    pub(crate) activators: Vec<Activator>,
}

/// Where rows enter a built view.
pub(crate) struct BuiltInput {
    /// The plan's node.
    pub(crate) node: usize,
    /// What it reads; `None` for constants.
    pub(crate) collection: Option<CollectionId>,
    pub(crate) handle: InputHandle,
}

/// Everything that operators of one view share.
struct Site<'scope> {
    scope: Scope<'scope, u64>,
    status: Arc<ViewStatus>,
    meters: Arc<ViewMeters>,
    start: u64,
    reached: Rc<Cell<u64>>,
    waiting: Rc<Cell<usize>>,
    activators: RefCell<Vec<Activator>>,
    /// Whether errors of rows have a place to go; else they fail the view.
    keeps_errors: bool,
    /// The state of another view that it goes on with.
    kept: Kept,
    /// Where state may go when memory is short.
    spill: Option<Spill>,
}

/// A stream, and the columns that its rows are distributed by; `None`: they are on the right worker.
type Placed<'scope> = (PacketStream<'scope>, Option<Vec<usize>>);

/// A stateful operator to be placed in a dataflow.
struct Stateful<'scope> {
    /// The node whose meter counts its work.
    node: usize,
    name: &'static str,
    inputs: Vec<Placed<'scope>>,
    kernel: SharedKernel,
    added: Added,
    /// Whether what comes to it in the first epoch is in its state already.
    knows_first: bool,
}

/// Builds a view's dataflow in a scope.
pub(crate) fn build<'scope>(scope: Scope<'scope, u64>, request: &CreateView) -> Result<BuiltView> {
    let (worker, plan) = (scope.index(), &request.plan);
    let site = Site {
        scope,
        status: request.status.clone(),
        meters: request.meters.clone(),
        start: request.epoch.0,
        reached: Rc::new(Cell::new(request.epoch.0)),
        waiting: Rc::default(),
        activators: RefCell::default(),
        keeps_errors: request.errors.is_some(),
        kept: request
            .replaces
            .as_ref()
            .map(|replaces| replaces.kept.clone())
            .unwrap_or_default(),
        spill: request.spill.clone(),
    };
    // A row's deletion must meet its insertion, whichever workers they come from.
    let identity = plan.table.identity();
    // The last operator's own state has the view's rows by their key: its output is net, and on the right worker.
    let is_last_state =
        matches!(&plan.nodes[plan.root], Node::Aggregate(node) if identity.iter().copied().eq(0..node.keys.len()));
    let published = Published::default();
    let publisher = Publish::new(
        request.table.clone(),
        worker,
        request.is_followed,
        is_last_state,
        request.is_followed.then(|| published.clone()),
    );
    let mut built = BuiltView {
        inputs: Vec::new(),
        constants: Vec::new(),
        probe: ProbeHandle::new(),
        kernels: BTreeMap::new(),
        published,
        publisher: Rc::new(RefCell::new(publisher)),
        added: BTreeMap::new(),
        added_errors: Added::default(),
        reached: site.reached.clone(),
        waiting: site.waiting.clone(),
        activators: Vec::new(),
    };
    let mut streams = Streams::default();
    for (id, node) in plan.nodes.iter().enumerate() {
        let stream = site.node(&mut built, &mut streams, id, node)?;
        streams.rows.push(stream);
    }
    let inputs = vec![(streams.rows[plan.root].clone(), (!is_last_state).then_some(identity))];
    site.publish(
        &built.probe,
        plan.nodes.len(),
        inputs,
        built.publisher.clone(),
        Added::default(),
    );
    if let Some(table) = &request.errors {
        let errors = site.scope.concatenate(streams.errors);
        let inputs = vec![(errors, Some(table.schema().identity()))];
        let kernel = Publish::new(table.clone(), worker, request.is_followed, false, None);
        let (kernel, added) = (shared(kernel), built.added_errors.clone());
        site.publish(&built.probe, plan.nodes.len() + 1, inputs, kernel, added);
    }
    built.activators = site.activators.take();
    Ok(built)
}

/// What the nodes give: rows by node, and errors of rows.
#[derive(Default)]
struct Streams<'scope> {
    rows: Vec<PacketStream<'scope>>,
    errors: Vec<PacketStream<'scope>>,
}

impl<'scope> Site<'scope> {
    /// Places a node behind those that it reads.
    fn node(
        &self,
        built: &mut BuiltView,
        streams: &mut Streams<'scope>,
        id: usize,
        node: &Node,
    ) -> Result<PacketStream<'scope>> {
        let rows = |node: usize| streams.rows[node].clone();
        let whole = node;
        let (inputs, kernel): (_, SharedKernel) = match node {
            Node::Input { collection, .. } => return Ok(self.input(built, id, Some(*collection))),
            Node::Constant { rows } => {
                built.constants.push((built.inputs.len(), rows.clone()));
                return Ok(self.input(built, id, None));
            }
            Node::Map { input, program } => {
                let (made, errors) = self.map(id, rows(*input), program.clone());
                streams.errors.extend(errors);
                return Ok(made);
            }
            Node::Union { inputs, .. } => {
                let parts: Vec<_> = inputs.iter().map(|input| rows(*input)).collect();
                return Ok(self.scope.concatenate(parts));
            }
            Node::Aggregate(node) => {
                let owner = shard_of(hash_rows(&[], 1)[0], self.scope.peers());
                let (of, gives) = (node.clone(), owner == self.scope.index());
                let kernel = self.kernel(whole, move || Ok(AggregateKernel::new(&of, gives)))?;
                (vec![(rows(node.input), Some(node.keys.clone()))], kernel)
            }
            Node::Join(node) => {
                let left = (rows(node.left), Some(node.left_keys.clone()));
                let right = (rows(node.right), Some(node.right_keys.clone()));
                let of = node.clone();
                (vec![left, right], self.kernel(whole, move || Ok(JoinKernel::new(&of)))?)
            }
            Node::TopN(node) => {
                let inputs = vec![(rows(node.input), Some(node.partition.clone()))];
                let of = node.clone();
                (inputs, self.kernel(whole, move || TopNKernel::new(&of))?)
            }
        };
        built.kernels.insert(id, kernel.clone());
        let added = built.added.entry(id).or_default().clone();
        let operator = Stateful {
            node: id,
            name: node.kind(),
            inputs,
            kernel,
            added,
            knows_first: self.kept.has_state(id),
        };
        let (made, errors) = self.stateful(operator, node.is_fallible() && self.keeps_errors);
        streams.errors.extend(errors);
        Ok(made)
    }

    /// A stateful operator, whose state may leave memory if the view's may and it has keys.
    fn kernel<K: Kernel + 'static>(&self, node: &Node, make: impl Fn() -> Result<K> + 'static) -> Result<SharedKernel> {
        let tables = node.state_tables();
        match &self.spill {
            Some(spill) if tables.iter().all(|table| !table.key.is_empty()) => {
                let make = Box::new(move || Ok(Box::new(make()?) as Box<dyn Kernel>));
                Ok(shared(SpillKernel::new(make, tables, node.key_columns(), spill)?))
            }
            _ => Ok(shared(make()?)),
        }
    }

    fn input(&self, built: &mut BuiltView, node: usize, collection: Option<CollectionId>) -> PacketStream<'scope> {
        let (handle, stream) = self.scope.clone().new_input_with_builder::<NoopBuilder<Packet>>();
        built.inputs.push(BuiltInput {
            node,
            collection,
            handle,
        });
        stream
    }

    fn publish(
        &self,
        probe: &ProbeHandle<u64>,
        node: usize,
        inputs: Vec<Placed<'scope>>,
        kernel: SharedKernel,
        added: Added,
    ) {
        let operator = Stateful {
            node,
            name: "publish",
            inputs,
            kernel,
            added,
            knows_first: false,
        };
        let (done, _) = self.stateful(operator, false);
        let _ = done.probe_with(probe);
    }

    /// An operator that works on whole epochs.
    ///
    /// # Returns
    /// What it gives, and the errors of rows if there can be any.
    fn stateful(
        &self,
        operator: Stateful<'scope>,
        fallible: bool,
    ) -> (PacketStream<'scope>, Option<PacketStream<'scope>>) {
        let mut builder = OperatorBuilder::new(operator.name.to_owned(), self.scope);
        let activator = self.scope.activator_for(builder.operator_info().address);
        let waker = self.scope.activator_for(builder.operator_info().address);
        self.activators.borrow_mut().push(waker);
        let mut readers: Vec<Reader> = Vec::new();
        for (index, (stream, keys)) in operator.inputs.into_iter().enumerate() {
            macro_rules! reader {
                ($pact:expr) => {{
                    let mut input = builder.new_input(stream, $pact);
                    readers.push(Box::new(move |sink| {
                        input.for_each(|capability, packet| sink(capability, std::mem::take(packet)));
                    }));
                }};
            }
            match keys {
                Some(keys) => reader!(DistributorPact(move |_peers: usize| HashDistributor::new(keys))),
                None => reader!(Pipeline),
            }
            builder.set_notify_for(index, FrontierInterest::IfCapability);
        }
        let (output, stream) = builder.new_output();
        let mut outputs = vec![OutputBuilder::<u64, NoopBuilder<Packet>>::from(output)];
        let errors = fallible.then(|| {
            let (output, stream) = builder.new_output();
            outputs.push(OutputBuilder::from(output));
            stream
        });
        let (status, meters, start) = (self.status.clone(), self.meters.clone(), self.start);
        let (reached, waiting, mut stride) = (self.reached.clone(), self.waiting.clone(), ROWS_PER_PUSH);
        let (node, kernel, added, knows_first) = (operator.node, operator.kernel, operator.added, operator.knows_first);
        builder.build(move |capabilities| {
            let mut stash = Stash::default();
            // The first epoch is worked on even without rows: a global aggregate has a result from the start.
            let first = capabilities.iter().map(|capability| capability.delayed(&start));
            stash.0.insert(start, Pending::new(first.collect()));
            drop(capabilities);
            move |frontiers| {
                let meter = meters.of(node);
                for (index, reader) in readers.iter_mut().enumerate() {
                    reader(&mut |capability, packet| {
                        if knows_first && *capability.least().expect("epochs are totally ordered") == start {
                            return;
                        }
                        let rows = stash.put(index, outputs.len(), capability, packet, meter);
                        waiting.set(waiting.get() + rows);
                    });
                }
                if let Some(first) = stash.0.get_mut(&start) {
                    let added = added.take();
                    waiting.set(waiting.get() + added.iter().map(|(_, changes)| changes.len()).sum::<usize>());
                    first.queue.extend(added);
                }
                let mut fuel = ROWS_PER_ACTIVATION;
                while let Some(mut entry) = stash.0.first_entry() {
                    let epoch = *entry.key();
                    let is_closed = !frontiers.iter().any(|frontier| frontier.less_equal(&epoch));
                    let is_lowest = !frontiers.iter().any(|frontier| frontier.less_than(&epoch));
                    let pending = entry.get_mut();
                    let may_take = is_lowest && epoch <= reached.get() && !pending.queue.is_empty();
                    if !is_closed && !may_take {
                        break;
                    }
                    let work = Work {
                        kernel: &kernel,
                        status: &status,
                        epoch: Epoch(epoch),
                        is_closed,
                    };
                    let mut results = Results::default();
                    let mut pace = Pace {
                        fuel: &mut fuel,
                        stride: &mut stride,
                    };
                    let before = rows_of(&pending.queue);
                    let done = meter.timed(|| work.run(&mut pending.queue, &mut pace, &mut results));
                    waiting.set(waiting.get() + rows_of(&pending.queue) - before);
                    results.rows.iter().for_each(|changes| meter.gave(changes.len()));
                    if let (1, Some(errors)) = (outputs.len(), results.errors.first()) {
                        status.fail(first_of(errors));
                    }
                    for ((output, results), capability) in outputs
                        .iter_mut()
                        .zip([results.rows, results.errors])
                        .zip(&pending.capabilities)
                    {
                        let mut output = output.activate();
                        let mut session = output.session_with_builder(capability);
                        results
                            .into_iter()
                            .for_each(|changes| session.give_container(&mut Packet::new(changes)));
                    }
                    if !done {
                        activator.activate();
                        break;
                    }
                    if !is_closed {
                        break;
                    }
                    entry.remove();
                }
            }
        });
        (stream, errors)
    }
}

fn shared(kernel: impl Kernel + 'static) -> SharedKernel {
    Rc::new(RefCell::new(kernel))
}

type Reader = Box<dyn FnMut(&mut dyn FnMut(InputCapability<u64>, Packet))>;

struct Pending {
    /// One per output.
    capabilities: Vec<Capability<u64>>,
    queue: VecDeque<(usize, Changes)>,
}

impl Pending {
    fn new(capabilities: Vec<Capability<u64>>) -> Pending {
        Pending {
            capabilities,
            queue: VecDeque::new(),
        }
    }
}

/// Changes of epochs that are still open, by epoch.
#[derive(Default)]
struct Stash(BTreeMap<u64, Pending>);

impl Stash {
    /// Keeps changes that have come.
    ///
    /// # Returns
    /// How many rows they are.
    fn put(
        &mut self,
        input: usize,
        outputs: usize,
        capability: InputCapability<u64>,
        packet: Packet,
        meter: &OperatorMeter,
    ) -> usize {
        let Some(changes) = packet.into_changes() else {
            return 0;
        };
        let rows = changes.len();
        meter.took(rows);
        let epoch = *capability.least().expect("epochs are totally ordered");
        let pending = self.0.entry(epoch).or_insert_with(|| {
            let capabilities = (0..outputs).map(|output| capability.retain_least(output));
            Pending::new(
                capabilities
                    .map(|held| held.expect("the message carries its epoch"))
                    .collect(),
            )
        });
        pending.queue.push_back((input, changes));
        rows
    }
}

fn rows_of(queue: &VecDeque<(usize, Changes)>) -> usize {
    queue.iter().map(|(_, changes)| changes.len()).sum()
}

/// What an operator gives in one turn.
#[derive(Default)]
struct Results {
    rows: Vec<Changes>,
    errors: Vec<Changes>,
}

/// One epoch of one operator.
struct Work<'a> {
    kernel: &'a SharedKernel,
    status: &'a ViewStatus,
    epoch: Epoch,
    /// Whether all its changes have come.
    is_closed: bool,
}

/// How far an operator may go in one turn, and in what steps.
struct Pace<'a> {
    /// Rows, taken or given, that are left to it.
    fuel: &'a mut usize,
    /// Rows of the next push.
    stride: &'a mut usize,
}

impl Work<'_> {
    /// Works on the epoch while there is fuel, and finishes it if it is closed.
    ///
    /// # Returns
    /// Whether all that has come is taken.
    fn run(&self, queue: &mut VecDeque<(usize, Changes)>, pace: &mut Pace, results: &mut Results) -> bool {
        let outcome = guarded(|| {
            self.kernel.borrow_mut().begin(self.epoch);
            let done = self.take(queue, pace, results)?;
            if !self.status.is_failed() {
                let mut kernel = self.kernel.borrow_mut();
                if done && self.is_closed {
                    kernel.finish(self.epoch, &mut results.rows)?;
                }
                results.errors.extend(kernel.take_errors()?);
            }
            Ok(done)
        });
        outcome.unwrap_or_else(|error| {
            self.status.fail(error);
            queue.clear();
            *results = Results::default();
            true
        })
    }

    /// Hands the kernel what has come.
    ///
    /// # Returns
    /// Whether that was everything.
    fn take(&self, queue: &mut VecDeque<(usize, Changes)>, pace: &mut Pace, results: &mut Results) -> Result<bool> {
        while let Some((input, changes)) = queue.pop_front() {
            if self.status.is_failed() {
                continue;
            }
            if *pace.fuel == 0 {
                queue.push_front((input, changes));
                return Ok(false);
            }
            let rows = changes.len().min(*pace.stride).min(*pace.fuel);
            let (part, before) = (changes.slice(0, rows), results.rows.len());
            let taken = self.kernel.borrow_mut().push_some(input, &part, &mut results.rows)?;
            if taken < changes.len() {
                queue.push_front((input, changes.slice(taken, changes.len() - taken)));
            }
            let given = results.rows[before..].iter().map(Changes::len).sum();
            pace.spend(rows, taken, given);
        }
        Ok(true)
    }
}

impl Pace<'_> {
    /// Takes note of a push of `offered` rows.
    fn spend(&mut self, offered: usize, taken: usize, given: usize) {
        let worked = if taken < offered { ROWS_PER_PUSH } else { taken };
        *self.fuel = self.fuel.saturating_sub(worked.max(given));
        *self.stride = match taken < offered {
            true => taken,
            false => (*self.stride * 2).min(ROWS_PER_PUSH),
        };
    }
}

/// Runs work of one view; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        if is_overflow(&*panic) {
            return Err(too_long("cannot process batch", "2 GiB of text in one"));
        }
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Error::bug(format!(
            "an operator panicked: {}",
            text.unwrap_or_else(|| "no message".into())
        )))
    })
}
