//! Filters and projections in a dataflow: stateless, as batches come.

use super::{PacketStream, Site, guarded};
use crate::meters::OperatorMeter;
use crate::packet::Packet;
use crate::plan::RowProgram;
use crate::row_errors::RowErrors;
use cenote_statestore::Changes;
use std::sync::Arc;
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::operator::Operator;

impl<'scope> Site<'scope> {
    /// Filters and projections.
    ///
    /// # Returns
    /// Their rows, and the errors of rows if there can be any.
    pub(super) fn map(
        &self,
        node: usize,
        stream: PacketStream<'scope>,
        program: Arc<dyn RowProgram>,
    ) -> (PacketStream<'scope>, Option<PacketStream<'scope>>) {
        if self.keeps_errors && program.is_fallible() {
            let (rows, errors) = self.fallible_map(node, stream, program);
            (rows, Some(errors))
        } else {
            (self.plain_map(node, stream, program), None)
        }
    }

    fn plain_map(
        &self,
        node: usize,
        stream: PacketStream<'scope>,
        program: Arc<dyn RowProgram>,
    ) -> PacketStream<'scope> {
        let (status, meters) = (self.status.clone(), self.meters.clone());
        stream.unary::<NoopBuilder<Packet>, _, _, _>(Pipeline, "map", move |_, _| {
            move |input, output| {
                let meter = meters.of(node);
                input.for_each(|capability, packet| {
                    let Some(changes) = std::mem::take(packet).into_changes().filter(|_| !status.is_failed()) else {
                        return;
                    };
                    meter.took(changes.len());
                    match meter.timed(|| guarded(|| program.run(changes))) {
                        Ok(changes) => give(meter, changes, |mut packet| {
                            output.session_with_builder(&capability).give_container(&mut packet);
                        }),
                        Err(error) => status.fail(error),
                    }
                });
            }
        })
    }

    fn fallible_map(
        &self,
        node: usize,
        stream: PacketStream<'scope>,
        program: Arc<dyn RowProgram>,
    ) -> (PacketStream<'scope>, PacketStream<'scope>) {
        let mut builder = OperatorBuilder::new("map".to_owned(), self.scope);
        let mut input = builder.new_input(stream, Pipeline);
        let (output, rows) = builder.new_output();
        let mut output = OutputBuilder::<u64, NoopBuilder<Packet>>::from(output);
        let (failed, errors) = builder.new_output();
        let mut failed = OutputBuilder::<u64, NoopBuilder<Packet>>::from(failed);
        let (status, meters) = (self.status.clone(), self.meters.clone());
        builder.set_notify_for(0, timely::progress::operate::FrontierInterest::Never);
        builder.build(move |capabilities| {
            drop(capabilities);
            let mut row_errors = RowErrors::new(&program.describe(), program.input_names());
            move |_frontiers| {
                let (mut output, mut failed) = (output.activate(), failed.activate());
                let meter = meters.of(node);
                input.for_each(|capability, packet| {
                    let Some(changes) = std::mem::take(packet).into_changes().filter(|_| !status.is_failed()) else {
                        return;
                    };
                    meter.took(changes.len());
                    let outcome = meter.timed(|| guarded(|| row_errors.run(&*program, changes)));
                    match outcome {
                        Ok((made, errors)) => {
                            for part in made {
                                give(meter, part, |mut packet| {
                                    output.session_with_builder(&capability).give_container(&mut packet);
                                });
                            }
                            if let Some(errors) = errors {
                                let mut packet = Packet::new(errors);
                                failed.session_with_builder(&capability).give_container(&mut packet);
                            }
                        }
                        Err(error) => status.fail(error),
                    }
                });
            }
        });
        (rows, errors)
    }
}

fn give(meter: &OperatorMeter, changes: Changes, send: impl FnOnce(Packet)) {
    if !changes.is_empty() {
        meter.gave(changes.len());
        send(Packet::new(changes));
    }
}
