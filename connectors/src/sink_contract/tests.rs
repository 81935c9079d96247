//! The drill finds sinks that break the contract; those of this build keep it.

use super::*;
use crate::testing::{BIGINT, Dice, TEXT, rows_of, schema, sink_request};
use arrow::array::{Int64Array, RecordBatch, StringArray};
use cenote_engine::port::Connector;
use cenote_statestore::Weights;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Epochs of updates of a few keys, as a view has them.
pub(crate) fn updates(seed: u64, epochs: u64) -> Vec<(Epoch, Changes)> {
    let (mut dice, mut now) = (Dice::new(seed), BTreeMap::new());
    let mut all = Vec::new();
    for epoch in 1..=epochs {
        let (mut rows, mut weights) = (Vec::new(), Vec::new());
        let keys: std::collections::BTreeSet<i64> = (0..1 + dice.below(4)).map(|_| dice.below(5) as i64).collect();
        for key in &keys {
            if let Some(old) = now.remove(key) {
                rows.push((*key, old));
                weights.push(-1);
            }
        }
        for key in &keys {
            let new = format!("{key} at {epoch}");
            now.insert(*key, new.clone());
            rows.push((*key, new));
            weights.push(1);
        }
        // Epochs of a collection are not dense.
        all.push((Epoch(epoch * 3), changes(&rows, weights)));
    }
    all
}

/// Epochs of rows that stay.
pub(crate) fn insertions(epochs: u64) -> Vec<(Epoch, Changes)> {
    let rows = |epoch: u64| (0..=epoch % 3).map(move |row| ((epoch * 10 + row) as i64, "x".repeat(row as usize)));
    let epoch = |epoch| {
        let rows: Vec<_> = rows(epoch).collect();
        let weights = vec![1; rows.len()];
        (Epoch(epoch), changes(&rows, weights))
    };
    (1..=epochs).map(epoch).collect()
}

fn changes(rows: &[(i64, String)], weights: Vec<i64>) -> Changes {
    let columns = schema(&[("k", BIGINT), ("v", TEXT)]);
    let keys = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let values = StringArray::from_iter_values(rows.iter().map(|row| row.1.as_str()));
    let rows = RecordBatch::try_new(columns, vec![Arc::new(keys), Arc::new(values)]).unwrap();
    Changes::new(rows, Weights::Each(weights))
}

/// Rows by key, as another system would keep them.
#[derive(Clone, Default)]
struct Elsewhere(Arc<Mutex<BTreeMap<String, (u64, String)>>>);

/// A sink that puts rows in place by key.
struct Upserts {
    elsewhere: Elsewhere,
    /// Breaks the contract: older epochs win as well.
    forgets_epochs: bool,
}

impl Sink for Upserts {
    fn contract(&self) -> SinkContract {
        SinkContract::Idempotent
    }

    fn recover(&mut self, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, epoch: Epoch, changes: &Changes) -> Result<u64> {
        let mut rows = self.elsewhere.0.lock().unwrap();
        for (row, text) in rows_of(changes.rows()).into_iter().enumerate() {
            let (key, value) = text.split_once('|').unwrap();
            let known = rows.get(key).map_or(0, |(epoch, _)| *epoch);
            if changes.weights().get(row) > 0 && (self.forgets_epochs || known <= epoch.0) {
                let value = if self.forgets_epochs && known >= epoch.0 {
                    format!("{value} again")
                } else {
                    value.to_string()
                };
                rows.insert(key.to_string(), (epoch.0, value));
            }
        }
        Ok(0)
    }

    fn prepare(&mut self, epoch: Epoch, _: Cut) -> Result<String> {
        Ok(epoch.to_string())
    }

    fn commit(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}

/// Runs a sink of upserts through every cut; gives the runs whose outcome is not that of the whole run.
fn wrong_runs(forgets_epochs: bool) -> (usize, usize) {
    let elsewhere = Elsewhere::default();
    let open = || -> Box<dyn Sink> {
        Box::new(Upserts {
            elsewhere: elsewhere.clone(),
            forgets_epochs,
        })
    };
    let epochs = updates(7, 6);
    let drill = Drill {
        open: &open,
        epochs: &epochs,
        epochs_per_transaction: 2,
    };
    drill.run_through();
    let expected = std::mem::take(&mut *elsewhere.0.lock().unwrap());
    let mut wrong = 0;
    let runs = drill.run_cut_off_everywhere(Kill::Process, |_| {
        wrong += (std::mem::take(&mut *elsewhere.0.lock().unwrap()) != expected) as usize;
    });
    (wrong, runs)
}

#[test]
fn an_upsert_by_key_and_epoch_is_right_whenever_it_is_killed() {
    let (wrong, runs) = wrong_runs(false);
    assert_eq!(wrong, 0);
    assert!(runs > 20, "{runs} moments");
}

#[test]
fn the_drill_finds_an_upsert_that_is_not_idempotent() {
    let (wrong, _) = wrong_runs(true);
    assert!(wrong > 0);
}

#[test]
fn the_blackhole_takes_everything() {
    let columns = schema(&[("k", BIGINT), ("v", TEXT)]);
    let open = || crate::blackhole::Blackhole.sink(sink_request(&columns, &[])).unwrap();
    let epochs = updates(1, 5);
    let drill = Drill {
        open: &open,
        epochs: &epochs,
        epochs_per_transaction: 3,
    };
    assert!(drill.run_cut_off_everywhere(Kill::Process, |_| {}) > 10);
}

#[test]
fn an_option_that_a_sink_does_not_have_is_refused_with_the_nearest() {
    let request = sink_request(&schema(&[("k", BIGINT)]), &[("mod", "append")]);
    let print = crate::print::Print::new(Arc::new(crate::testing::Bars));
    let error = print.sink(request).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), "CONN-0001");
    assert_eq!(error.hint(), Some("did you mean `mode`?"));
    let request = sink_request(&schema(&[("k", BIGINT)]), &[("path", "x")]);
    assert_eq!(
        crate::blackhole::Blackhole
            .sink(request)
            .map(|_| ())
            .unwrap_err()
            .code(),
        "CONN-0001"
    );
}
