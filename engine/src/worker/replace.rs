//! A view takes another one's place: it is given state when it starts, and later the other one's number, table and readers.
//!
//! # Rules kept here
//! 1. Both views stand still for it at one epoch on this worker, which takes no later command until they do. Workers do it each
//!    for itself: no epoch after that is finished before all of them have.
//! 2. Who reads the old view gets the difference between the two as the changes of one epoch, in which nothing else changes.
//!
//! # Not here
//! Which state is kept ([`crate::keep`]); whether one view may take the other's place (`query`).

use super::{CreateView, SwitchView, Worker, refuse};
use crate::committer::Replaces;
use crate::dataflow::guarded;
use crate::plan::CollectionId;
use cenote_statestore::{Epoch, Error, ErrorKind, Pin, Result};

/// What waits for views to stand still.
#[derive(Default)]
pub(super) struct Replacements {
    awaiting: Vec<Awaiting>,
    switches: Vec<SwitchView>,
}

impl Replacements {
    /// Whether a view is about to take another's place: what comes later is about that one.
    pub(super) fn is_switching(&self) -> bool {
        !self.switches.is_empty()
    }
}

/// A view that is to be given state.
struct Awaiting {
    view: CollectionId,
    replaces: Replaces,
    at: Epoch,
    pin: Pin,
}

impl Worker {
    /// Lets a new view wait for the state that it goes on with.
    pub(super) fn await_state(&mut self, request: &CreateView) {
        let Some((replaces, pin)) = request.replaces.as_ref().zip(request.before.as_ref()) else {
            return;
        };
        if replaces.kept.standing.is_empty() {
            return;
        }
        if let Some(old) = self.views.get_mut(&replaces.view) {
            old.hold(request.inputs_at);
        }
        if let Some(view) = self.views.get_mut(&request.id) {
            view.await_state();
        }
        self.replacements.awaiting.push(Awaiting {
            view: request.id,
            replaces: replaces.clone(),
            at: request.inputs_at,
            pin: pin.clone(),
        });
    }

    /// Stops two views before an epoch in which one takes the other's place.
    pub(super) fn begin_switch(&mut self, switch: SwitchView) {
        for id in [switch.old, switch.new] {
            if let Some(view) = self.views.get_mut(&id) {
                view.hold(switch.before.epoch());
                view.touch(switch.epoch, false);
            }
        }
        self.touch(switch.epoch, &[switch.old], &[], false);
        self.replacements.switches.push(switch);
    }

    /// Does what views have come to stand still for.
    ///
    /// # Returns
    /// Whether there was anything.
    pub(super) fn replace(&mut self) -> bool {
        let waiting = |now: &Replacements| now.awaiting.len() + now.switches.len();
        let before = waiting(&self.replacements);
        for awaiting in std::mem::take(&mut self.replacements.awaiting) {
            match self.is_due(awaiting.replaces.view, awaiting.view, None, awaiting.at) {
                true => self.give_state(&awaiting),
                false => self.replacements.awaiting.push(awaiting),
            }
        }
        for switch in std::mem::take(&mut self.replacements.switches) {
            match self.is_due(switch.old, switch.new, Some(switch.new), switch.before.epoch()) {
                true => self.switch(&switch),
                false => self.replacements.switches.push(switch),
            }
        }
        waiting(&self.replacements) < before
    }

    /// Whether views stand still at an epoch, or are gone.
    ///
    /// # Arguments
    /// - `still`: a second view that has to.
    fn is_due(&self, old: CollectionId, new: CollectionId, still: Option<CollectionId>, at: Epoch) -> bool {
        let is_still = |id| self.views.get(&id).is_none_or(|view| view.has_finished(at));
        !self.views.contains_key(&new) || is_still(old) && still.is_none_or(is_still)
    }

    fn give_state(&mut self, awaiting: &Awaiting) {
        let Replaces { view, kept, errors } = &awaiting.replaces;
        // It may have been given up meanwhile.
        if let Some(mut new) = self.views.remove(&awaiting.view) {
            let errors = errors.as_ref().map(|errors| {
                let columns = (0..errors.schema().columns.fields().len()).collect();
                errors.scan(awaiting.pin.clone(), columns, self.index..self.index + 1)
            });
            let given: Result<()> = match self.views.get(view).map(|old| (old, old.status().failure().cloned())) {
                None => Err(gone()),
                Some((_, Some(error))) => Err(error),
                Some((old, None)) => guarded(|| new.take_state(old, kept, errors)),
            };
            if let Err(error) = given {
                new.status().fail(error);
            }
            self.views.insert(awaiting.view, new);
        }
        if let Some(old) = self.views.get_mut(view) {
            old.let_go(awaiting.at);
        }
    }

    fn switch(&mut self, switch: &SwitchView) {
        let (Some(mut new), Some(mut old)) = (self.views.remove(&switch.new), self.views.remove(&switch.old)) else {
            tracing::error!("a view that was to be replaced is gone");
            return;
        };
        for collection in old.collections() {
            self.readers.entry(collection).or_default().remove(&switch.old);
        }
        for collection in new.collections() {
            let readers = self.readers.entry(collection).or_default();
            readers.remove(&switch.new);
            readers.insert(switch.old);
        }
        old.answer_peeks();
        old.waiting().for_each(refuse);
        let worker = self.index;
        if let Err(error) = guarded(|| new.take_table(&old, worker, switch.epoch, &switch.before)) {
            new.status().fail(error);
        }
        new.let_go(switch.before.epoch());
        let dataflow = old.dataflow();
        drop(old);
        self.timely.drop_dataflow(dataflow);
        self.views.insert(switch.old, new);
        self.fail_with_inputs(switch.old);
        for reader in self.readers.get(&switch.old).into_iter().flatten() {
            if let Some(view) = self.views.get_mut(reader) {
                view.wake();
            }
        }
    }
}

fn gone() -> Error {
    let text = "cannot go on with the state of a view: it was dropped meanwhile";
    Error::new(ErrorKind::Conflict, "ENGINE-0003", text).sqlstate("42P01")
}
