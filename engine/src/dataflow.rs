//! Builds the timely dataflow of one view on one worker.
//!
//! # Rules kept here
//! 1. A stateful operator collects changes by epoch and works on an epoch when its frontier has passed it, in
//!    order, [`ROWS_PER_ACTIVATION`] rows at most before it yields to other dataflows.
//! 2. An error or a panic in one operator marks its view as failed; the operator then only lets epochs pass, so
//!    every other view goes on.
//!
//! # Not here
//! What operators compute ([`crate::kernel`]); when inputs advance (`worker`).

use crate::kernel::{AggregateKernel, JoinKernel, Kernel, TopNKernel};
use crate::packet::{HashDistributor, Packet};
use crate::plan::{CollectionId, Node, ViewPlan};
use crate::status::ViewStatus;
use cenote_statestore::{Changes, Epoch, Error, Result, VersionedTable, hash_rows, shard_of};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::operators::core::Concatenate;
use timely::dataflow::operators::core::input::Handle as TimelyInput;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{OutputBuilder, operator::Operator};
use timely::dataflow::operators::{Capability, Input, InputCapability, Probe};
use timely::dataflow::{ProbeHandle, Scope, Stream};
use timely::progress::operate::FrontierInterest;

/// Rows that an operator works on before it yields.
const ROWS_PER_ACTIVATION: usize = 64 * 1024;

/// Rows given to a kernel at once.
const ROWS_PER_PUSH: usize = 16 * 1024;

pub(crate) type InputHandle = TimelyInput<u64, NoopBuilder<Packet>>;
type PacketStream<'scope> = Stream<'scope, u64, Packet>;

/// Net changes that a view's last operator has applied on this worker, oldest first.
pub(crate) type Published = Rc<RefCell<VecDeque<(u64, Changes)>>>;

/// A stateful operator as the worker reads it between steps.
pub(crate) type SharedKernel = Rc<RefCell<dyn Kernel>>;

/// What the worker drives and reads of a built view.
pub(crate) struct BuiltView {
    /// Inputs in the order of the plan's input nodes; `None` for constants.
    pub(crate) inputs: Vec<(Option<CollectionId>, InputHandle)>,
    /// Rows of the constants, by position in `inputs`.
    pub(crate) constants: Vec<(usize, Changes)>,
    pub(crate) probe: ProbeHandle<u64>,
    /// Stateful operators by plan node.
    pub(crate) kernels: BTreeMap<usize, SharedKernel>,
    pub(crate) published: Published,
}

/// Everything that operators of one view share.
struct Site<'scope> {
    scope: Scope<'scope, u64>,
    status: Arc<ViewStatus>,
    start: u64,
}

/// Builds a view's dataflow in a scope.
pub(crate) fn build<'scope>(
    scope: Scope<'scope, u64>,
    plan: &ViewPlan,
    table: Arc<VersionedTable>,
    status: Arc<ViewStatus>,
    start: Epoch,
) -> Result<BuiltView> {
    let (worker, workers) = (scope.index(), scope.peers());
    let site = Site {
        scope,
        status,
        start: start.0,
    };
    let published = Published::default();
    let mut built = BuiltView {
        inputs: Vec::new(),
        constants: Vec::new(),
        probe: ProbeHandle::new(),
        kernels: BTreeMap::new(),
        published: published.clone(),
    };
    let mut streams: Vec<PacketStream<'scope>> = Vec::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        let stream = match node {
            Node::Input { collection, .. } => site.input(&mut built, Some(*collection)),
            Node::Constant { rows } => {
                built.constants.push((built.inputs.len(), rows.clone()));
                site.input(&mut built, None)
            }
            Node::Map { input, program } => site.map(streams[*input].clone(), program.clone()),
            Node::Union { inputs, .. } => {
                let parts: Vec<_> = inputs.iter().map(|input| streams[*input].clone()).collect();
                site.scope.clone().concatenate(parts)
            }
            Node::Aggregate(node) => {
                let owner = shard_of(hash_rows(&[], 1)[0], workers);
                let kernel = AggregateKernel::new(node, owner == worker);
                let inputs = vec![(streams[node.input].clone(), node.keys.clone())];
                site.kernel(&mut built, id, inputs, kernel)
            }
            Node::Join(node) => {
                let inputs = vec![
                    (streams[node.left].clone(), node.left_keys.clone()),
                    (streams[node.right].clone(), node.right_keys.clone()),
                ];
                site.kernel(&mut built, id, inputs, JoinKernel::new(node))
            }
            Node::TopN(node) => {
                let inputs = vec![(streams[node.input].clone(), node.partition.clone())];
                site.kernel(&mut built, id, inputs, TopNKernel::new(node)?)
            }
        };
        streams.push(stream);
    }
    let publish = Publish {
        table,
        worker,
        pending: Vec::new(),
        published,
    };
    // A row's deletion must meet its insertion, whichever workers they come from.
    let inputs = vec![(streams[plan.root].clone(), plan.table.identity())];
    let output = site.stateful("publish", inputs, Rc::new(RefCell::new(publish)));
    let _ = output.probe_with(&built.probe);
    Ok(built)
}

impl<'scope> Site<'scope> {
    fn input(&self, built: &mut BuiltView, collection: Option<CollectionId>) -> PacketStream<'scope> {
        let (handle, stream) = self.scope.new_input_with_builder::<NoopBuilder<Packet>>();
        built.inputs.push((collection, handle));
        stream
    }

    fn map(&self, stream: PacketStream<'scope>, program: Arc<dyn crate::plan::RowProgram>) -> PacketStream<'scope> {
        let status = self.status.clone();
        stream.unary::<NoopBuilder<Packet>, _, _, _>(Pipeline, "map", move |_, _| {
            move |input, output| {
                input.for_each(|capability, packet| {
                    let Some(changes) = std::mem::take(packet).into_changes().filter(|_| !status.is_failed()) else {
                        return;
                    };
                    let mapped = guarded(|| program.run(changes));
                    match mapped {
                        Ok(changes) if changes.is_empty() => {}
                        Ok(changes) => {
                            output
                                .session_with_builder(&capability)
                                .give_container(&mut Packet::new(changes));
                        }
                        Err(error) => status.fail(error),
                    }
                });
            }
        })
    }

    fn kernel(
        &self,
        built: &mut BuiltView,
        node: usize,
        inputs: Vec<(PacketStream<'scope>, Vec<usize>)>,
        kernel: impl Kernel + 'static,
    ) -> PacketStream<'scope> {
        let kernel: SharedKernel = Rc::new(RefCell::new(kernel));
        built.kernels.insert(node, kernel.clone());
        self.stateful("kernel", inputs, kernel)
    }

    /// An operator that works on whole epochs.
    ///
    /// # Arguments
    /// - `inputs`: streams, each with the columns that rows are distributed by.
    fn stateful(
        &self,
        name: &str,
        inputs: Vec<(PacketStream<'scope>, Vec<usize>)>,
        kernel: SharedKernel,
    ) -> PacketStream<'scope> {
        let mut builder = OperatorBuilder::new(name.to_owned(), self.scope);
        let activator = self.scope.activator_for(builder.operator_info().address);
        let mut readers: Vec<Reader> = Vec::new();
        for (index, (stream, keys)) in inputs.into_iter().enumerate() {
            let pact = DistributorPact(move |_peers: usize| HashDistributor::new(keys));
            let mut input = builder.new_input(stream, pact);
            readers.push(Box::new(move |sink| {
                input.for_each(|capability, packet| sink(capability, std::mem::take(packet)));
            }));
            builder.set_notify_for(index, FrontierInterest::IfCapability);
        }
        let (output, stream) = builder.new_output();
        let mut output = OutputBuilder::<u64, NoopBuilder<Packet>>::from(output);
        let (status, start) = (self.status.clone(), self.start);
        builder.build(move |mut capabilities| {
            let capability = capabilities.pop().expect("one output has one capability");
            let mut stash = Stash::default();
            // The first epoch is worked on even without rows: a global aggregate has a result from the start.
            stash.0.insert(
                start,
                Pending {
                    capability: capability.delayed(&start),
                    queue: VecDeque::new(),
                },
            );
            drop(capability);
            move |frontiers| {
                for (index, reader) in readers.iter_mut().enumerate() {
                    reader(&mut |capability, packet| stash.put(index, capability, packet));
                }
                let mut output = output.activate();
                let mut fuel = ROWS_PER_ACTIVATION;
                while let Some(mut entry) = stash.0.first_entry() {
                    let epoch = *entry.key();
                    if frontiers.iter().any(|frontier| frontier.less_equal(&epoch)) {
                        break;
                    }
                    let pending = entry.get_mut();
                    let mut results = Vec::new();
                    let done = work(
                        &kernel,
                        &status,
                        Epoch(epoch),
                        &mut pending.queue,
                        &mut fuel,
                        &mut results,
                    );
                    {
                        let mut session = output.session_with_builder(&pending.capability);
                        results
                            .into_iter()
                            .for_each(|changes| session.give_container(&mut Packet::new(changes)));
                    }
                    if !done {
                        activator.activate();
                        break;
                    }
                    entry.remove();
                }
            }
        });
        stream
    }
}

type Reader = Box<dyn FnMut(&mut dyn FnMut(InputCapability<u64>, Packet))>;

struct Pending {
    capability: Capability<u64>,
    queue: VecDeque<(usize, Changes)>,
}

/// Changes of epochs that are still open, by epoch.
#[derive(Default)]
struct Stash(BTreeMap<u64, Pending>);

impl Stash {
    fn put(&mut self, input: usize, capability: InputCapability<u64>, packet: Packet) {
        let Some(changes) = packet.into_changes() else {
            return;
        };
        let epoch = *capability.least().expect("epochs are totally ordered");
        let pending = self.0.entry(epoch).or_insert_with(|| Pending {
            capability: capability.retain_least(0).expect("the message carries its epoch"),
            queue: VecDeque::new(),
        });
        pending.queue.push_back((input, changes));
    }
}

/// Works on an epoch while there is fuel.
///
/// # Returns
/// Whether the epoch is finished.
fn work(
    kernel: &SharedKernel,
    status: &ViewStatus,
    epoch: Epoch,
    queue: &mut VecDeque<(usize, Changes)>,
    fuel: &mut usize,
    results: &mut Vec<Changes>,
) -> bool {
    let outcome = guarded(|| {
        while let Some((input, changes)) = queue.pop_front() {
            if status.is_failed() {
                continue;
            }
            if *fuel == 0 {
                queue.push_front((input, changes));
                return Ok(false);
            }
            let rows = changes.len().min(ROWS_PER_PUSH).min(*fuel);
            if rows < changes.len() {
                queue.push_front((input, changes.slice(rows, changes.len() - rows)));
            }
            kernel.borrow_mut().push(input, &changes.slice(0, rows), results)?;
            *fuel -= rows;
        }
        if !status.is_failed() {
            kernel.borrow_mut().finish(epoch, results)?;
        }
        Ok(true)
    });
    outcome.unwrap_or_else(|error| {
        status.fail(error);
        queue.clear();
        results.clear();
        true
    })
}

/// Runs work of one view; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Error::bug(format!(
            "an operator panicked: {}",
            text.unwrap_or_else(|| "no message".into())
        )))
    })
}

/// The last operator of a view: makes an epoch's changes net, applies them to the view's table and keeps them for
/// the views that read this one.
struct Publish {
    table: Arc<VersionedTable>,
    worker: usize,
    pending: Vec<Changes>,
    published: Published,
}

impl Kernel for Publish {
    fn push(&mut self, _input: usize, changes: &Changes, _output: &mut Vec<Changes>) -> Result<()> {
        self.pending.push(changes.clone());
        Ok(())
    }

    fn finish(&mut self, epoch: Epoch, _output: &mut Vec<Changes>) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let columns = self.table.schema().columns.clone();
        let changes = Changes::concat(&columns, &pending)?.consolidate()?;
        let rows = Changes::relabel(changes.rows().clone(), columns)?;
        let changes = changes.with_rows(rows);
        self.table.apply(self.worker, epoch, &changes)?;
        self.published.borrow_mut().push_back((epoch.0, changes));
        Ok(())
    }

    fn read(&self, _: usize, _: Option<&[arrow::array::ArrayRef]>) -> Result<Vec<arrow::array::RecordBatch>> {
        Ok(Vec::new())
    }

    fn size(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }
}
