//! What has changed since a checkpoint, and how many rows there are, against a model that knows every epoch.

use super::*;

/// Rows of the model, with how often they are there, by identity.
type Rows = BTreeMap<(String, i64), (i64, i64)>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// Changes of some rows, put into the model: rows that come, that go, that go and come back as something else.
fn random_changes(unique: bool, random: &mut Random, rows: &mut Rows) -> Vec<(String, i64, i64)> {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    let mut keys: Vec<String> = (0..random.below(12))
        .map(|_| format!("key number {}", random.below(24)))
        .collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let value = random.below(4) as i64;
        let identity = (key.clone(), if unique { 0 } else { value });
        let old = rows.remove(&identity);
        let left = match random.below(3) {
            0 => None,
            _ if unique => Some((value, 1)),
            _ => Some((value, 1 + random.below(3) as i64)),
        };
        match (unique, old, left) {
            (true, old, left) => {
                gone.extend(old.map(|(value, _)| (key.clone(), value, -1)));
                new.extend(left.map(|(value, _)| (key, value, 1)));
            }
            (false, old, left) => {
                let weight = left.map_or(0, |(_, weight)| weight) - old.map_or(0, |(_, weight)| weight);
                let changes = if weight < 0 { &mut gone } else { &mut new };
                changes.extend((weight != 0).then_some((key, value, weight)));
            }
        }
        rows.extend(left.map(|row| (identity, row)));
    }
    // In any order.
    match random.below(2) {
        0 => [gone, new].concat(),
        _ => [new, gone].concat(),
    }
}

/// Applies changes, those of each shard at once.
fn apply(table: &VersionedTable, epoch: u64, changes: &[(String, i64, i64)]) {
    for shard in 0..table.shards() {
        let rows = changes
            .iter()
            .map(|(key, value, weight)| (key.as_str(), *value, *weight));
        let own = rows.filter(|row| shard_for(table, &batch(table, &[*row])) == shard);
        let own: Vec<(&str, i64, i64)> = own.collect();
        table.apply(shard, Epoch(epoch), &batch(table, &own)).unwrap();
    }
}

fn contents_of(unique: bool, rows: &Rows) -> Vec<(String, i64)> {
    let copy = Copy {
        epoch: 0,
        rows: rows.clone(),
    };
    copy.contents(unique)
}

fn check_counts(table: &VersionedTable, retention: &Arc<Retention>, past: &BTreeMap<u64, Rows>, first: u64, last: u64) {
    for epoch in first..=last + 1 {
        let rows = &past[&epoch.min(last)];
        let wanted: i64 = rows.values().map(|(_, weight)| weight).sum();
        let pin = retention.pin(Epoch(epoch)).unwrap();
        let walked: u64 = table
            .shards
            .iter()
            .map(|shard| delta::count_slots(shard, &pin).unwrap())
            .sum();
        assert_eq!(walked, wanted as u64, "rows gone through, at {epoch} of {last}");
        assert_eq!(
            table.count(&pin).unwrap(),
            wanted as u64,
            "rows counted, at {epoch} of {last}"
        );
        let is_known = |shard: &RwLock<Shard>| shard.read().known_count(pin.epoch()).is_some();
        assert!(table.shards.iter().all(is_known), "the number at {epoch} of {last}");
    }
}

#[test]
fn deltas_and_counts_of_any_epoch_agree_with_a_model_whatever_was_written_at_once() {
    for (unique, shards, seed) in [(true, 1, 1), (true, 3, 2), (false, 1, 3), (true, 1, 4), (false, 1, 5)] {
        let ((table, retention), mut random) = (table(unique, shards), Random(seed));
        let (mut rows, mut past, mut copy) = (Rows::new(), BTreeMap::from([(0, Rows::new())]), Copy::default());
        let (mut epoch, mut horizon) = (0, 0);
        for _ in 0..400 {
            let before = epoch;
            epoch += 1 + random.below(2);
            for between in before + 1..epoch {
                past.insert(between, rows.clone());
            }
            for _ in 0..1 + random.below(3) {
                apply(&table, epoch, &random_changes(unique, &mut random, &mut rows));
            }
            past.insert(epoch, rows.clone());
            if random.below(3) == 0 {
                horizon = horizon.max(epoch.saturating_sub(random.below(9)));
                retention.keep_from(Epoch(horizon));
            }
            check_counts(&table, &retention, &past, horizon, epoch);
            if before < 10 && epoch >= 10 {
                table.keep_deletions(Epoch(epoch));
                copy.epoch = epoch;
                copy.begin(unique, &contents_of(unique, &rows));
                continue;
            }
            if epoch <= 10 {
                continue;
            }
            // What changed in one stretch can be asked for again, until it is dropped.
            let to = copy.epoch.max(horizon).max(epoch.saturating_sub(random.below(7)));
            let mut once = copy.clone();
            once.read(&table, &retention, to);
            let wanted = contents_of(unique, &past[&to]);
            assert_eq!(once.contents(unique), wanted, "{} to {to}, seen at {epoch}", copy.epoch);
            if random.below(4) == 0 {
                copy.go_on(&table, &retention, to);
            }
        }
    }
}

/// More rows than are looked at in one hold of the lock: one beside the other, and here and there in all slots.
#[test]
fn a_delta_of_many_rows_has_all_of_them() {
    const BESIDE: usize = 40_000;
    const STEP: usize = 17;
    let (table, retention) = table(true, 1);
    let keys: Vec<String> = (0..600_000).map(|key| format!("{key}")).collect();
    let rows = |step: usize, value: i64, weight: i64| -> Vec<(&str, i64, i64)> {
        let chosen = keys.iter().enumerate();
        let chosen = chosen.filter(|(row, _)| row % step == 0 || (step == STEP && *row < BESIDE));
        chosen.map(|(_, key)| (key.as_str(), value, weight)).collect()
    };
    table.apply(0, Epoch(1), &batch(&table, &rows(1, 1, 1))).unwrap();
    table.keep_deletions(Epoch(1));
    let updates = [rows(STEP, 1, -1), rows(STEP, 2, 1)].concat();
    table.apply(0, Epoch(2), &batch(&table, &updates)).unwrap();
    table
        .apply(0, Epoch(3), &batch(&table, &rows(STEP * 10, 2, -1)))
        .unwrap();
    let named = |after: u64, to: u64| {
        let (mut there, mut gone) = (0, 0);
        for rows in table.delta(Epoch(after), retention.pin(Epoch(to)).unwrap()).unwrap() {
            match rows.unwrap() {
                DeltaRows::There(rows) => {
                    let values = rows.rows().column(1).as_primitive::<Int64Type>();
                    assert!(values.values().iter().all(|value| *value == 2));
                    there += rows.len();
                }
                DeltaRows::Gone(rows) => gone += rows.num_rows(),
            }
        }
        (there, gone)
    };
    let (updated, deleted) = (rows(STEP, 1, 1).len(), rows(STEP * 10, 1, 1).len());
    assert_eq!(named(1, 2), (updated, 0));
    assert_eq!(named(1, 3), (updated - deleted, deleted));
    table.drop_deletions(Epoch(2));
    assert_eq!(named(2, 3), (0, deleted));
    assert_eq!(marked(&table), deleted, "what has not changed since is not looked at");
}

/// Slots that are looked at for a delta.
fn marked(table: &VersionedTable) -> usize {
    let shard = table.shards[0].read();
    shard.gone().marks().of(0..u32::MAX).count()
}

#[test]
fn a_row_that_is_replaced_at_once_is_not_noted_as_deleted() {
    let (table, retention) = table(true, 1);
    table
        .apply(0, Epoch(1), &batch(&table, &[("a", 1, 1), ("b", 1, 1)]))
        .unwrap();
    table.keep_deletions(Epoch(1));
    let noted = || {
        let noted = table.shards[0].read().gone().between(Epoch(1), Epoch(9)).unwrap();
        noted.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    table
        .apply(0, Epoch(2), &batch(&table, &[("a", 1, -1), ("a", 2, 1)]))
        .unwrap();
    assert_eq!(noted(), 0);
    table.apply(0, Epoch(2), &batch(&table, &[("a", 2, -1)])).unwrap();
    assert_eq!(noted(), 1);
    table
        .apply(0, Epoch(2), &batch(&table, &[("a", 3, 1), ("b", 1, -1)]))
        .unwrap();
    assert_eq!(noted(), 2);
    let delta = table.delta(Epoch(1), retention.pin(Epoch(2)).unwrap()).unwrap();
    let gone = delta.filter_map(|rows| match rows.unwrap() {
        DeltaRows::Gone(rows) => Some(rows.column(0).as_string::<i32>().value(0).to_string()),
        DeltaRows::There(_) => None,
    });
    assert_eq!(gone.collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_delta_that_is_under_way_says_so_when_deletions_are_given_up() {
    let (table, retention) = table(true, 1);
    let long = "x".repeat(1000);
    let keys: Vec<String> = (0..3000).map(|key| format!("{key}{long}")).collect();
    let rows = |weight| -> Vec<(&str, i64, i64)> { keys.iter().map(|key| (key.as_str(), 1, weight)).collect() };
    table.apply(0, Epoch(1), &batch(&table, &rows(1))).unwrap();
    table.keep_deletions(Epoch(1));
    table.apply(0, Epoch(2), &batch(&table, &[("a", 1, 1)])).unwrap();
    let mut delta = table.delta(Epoch(1), retention.pin(Epoch(2)).unwrap()).unwrap();
    table.apply(0, Epoch(3), &batch(&table, &rows(-1))).unwrap();
    assert_eq!(delta.next().unwrap().unwrap_err().kind(), crate::ErrorKind::Expired);
    assert!(delta.next().is_none());
}
