//! The index against the standard library's map, with hashes that collide.

use super::*;
use std::collections::HashMap;

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *state >> 33
}

/// A hash with few values: long runs, and wrapping round the end.
fn poor(key: u64) -> u64 {
    (key % 7) * 0x2492_4924 + 0xffff_ff00
}

fn good(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[test]
fn random_insertions_replacements_and_removals_agree_with_a_map() {
    for hash in [poor as fn(u64) -> u64, good] {
        let (mut index, mut model, mut keys, mut state) = (KeyIndex::default(), HashMap::new(), Vec::new(), 5);
        for step in 0..20_000 {
            let key = next(&mut state) % 300;
            let found = index.find(hash(key), |slot| keys[slot as usize] == key);
            assert_eq!(found, model.get(&key).copied(), "step {step}");
            let slot = keys.len() as u32;
            match (found, next(&mut state) % 3) {
                (None, _) => {
                    keys.push(key);
                    index.insert(hash(key), slot);
                    model.insert(key, slot);
                }
                (Some(old), 0) => {
                    keys.push(key);
                    index.replace(hash(key), old, slot);
                    model.insert(key, slot);
                }
                (Some(old), _) => {
                    assert!(index.remove(hash(key), old));
                    assert!(!index.remove(hash(key), old));
                    model.remove(&key);
                }
            }
            assert_eq!(index.len(), model.len());
        }
        let (mut slots, mut wanted): (Vec<u32>, Vec<u32>) = (index.iter().collect(), model.values().copied().collect());
        slots.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(slots, wanted);
    }
}

#[test]
fn many_keys_are_found_as_each_of_them_is() {
    let mut index = KeyIndex::default();
    let mut found = Vec::new();
    index.find_all(&[1, 2], |_, _| true, |_| 0, &mut found);
    assert_eq!(found, [NO_SLOT, NO_SLOT]);
    let keys: Vec<u64> = (0..1000).map(|key| key * 3).collect();
    keys.iter()
        .zip(0..)
        .for_each(|(key, slot)| index.insert(good(*key), slot));
    let hashes: Vec<u64> = (0..3000).map(good).collect();
    found.clear();
    index.find_all(
        &hashes,
        |slot, row| keys[slot as usize] == row as u64,
        |slot| keys[slot as usize],
        &mut found,
    );
    for (row, slot) in found.iter().enumerate() {
        let wanted = if row % 3 == 0 { row as u32 / 3 } else { NO_SLOT };
        assert_eq!(*slot, wanted);
    }
}

#[test]
fn runs_of_new_keys_are_found_and_one_that_is_there_is_told() {
    for (hash, rooms) in [
        (poor as fn(u64) -> u64, 0),
        (good, 0),
        (poor, 500),
        (good, 500),
        (good, 2000),
    ] {
        let (mut index, keys): (_, Vec<u64>) = (KeyIndex::default(), (0..1000).map(|key| key * 5).collect());
        let is_same = |a: u32, b: u32| keys[a as usize] == keys[b as usize];
        index.reserve(rooms);
        index.insert(hash(keys[0]), 0);
        for run in [1..2, 2..2, 2..67, 67..500, 500..1000] {
            let hashes: Vec<u64> = keys[run.clone()].iter().map(|key| hash(*key)).collect();
            assert_eq!(index.insert_run(&hashes, run.start as u32, is_same), None);
            assert_eq!(index.len(), run.end.max(1));
        }
        for (slot, key) in keys.iter().enumerate() {
            let found = index.find(hash(*key), |slot| keys[slot as usize] == *key);
            assert_eq!(found, Some(slot as u32));
        }
        let with_twice: Vec<u64> = keys.iter().copied().chain([7, 35, 8]).collect();
        let is_same = |a: u32, b: u32| with_twice[a as usize] == with_twice[b as usize];
        let hashes: Vec<u64> = with_twice[1000..].iter().map(|key| hash(*key)).collect();
        assert_eq!(index.insert_run(&hashes, 1000, is_same), Some(1001));
    }
}

#[test]
fn room_that_was_made_is_enough_and_no_more_than_that() {
    for keys in [1usize, 12, 13, 1000, 4097] {
        let mut index = KeyIndex::default();
        index.reserve(keys);
        let bytes = index.memory_bytes();
        assert!(
            bytes <= (keys * 8 * 3 / 2).max(ENTRIES_MIN * 8),
            "{bytes} bytes for {keys} keys"
        );
        (0..keys as u32).for_each(|slot| index.insert(good(slot.into()), slot));
        if keys >= SPARE {
            index.insert(good(keys as u64), keys as u32);
        }
        assert_eq!(index.memory_bytes(), bytes, "it grew on the way to {keys} keys");
    }
}

#[test]
fn a_range_of_hashes_has_the_slots_that_a_look_at_all_finds() {
    let mut seed = 11u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        seed >> 7
    };
    for keys in [0, 1, 5, 12, 100, 1000] {
        let mut index = KeyIndex::default();
        // Many share their last homes, so that some stand at the beginning of the array.
        let hashes: Vec<u64> = (0..keys)
            .map(|key| {
                if key % 3 == 0 {
                    u64::from(u32::MAX) - random() % 9
                } else {
                    random()
                }
            })
            .collect();
        for (slot, hash) in hashes.iter().enumerate() {
            index.insert(*hash, slot as u32);
        }
        for _ in 0..200 {
            let (a, b) = (random() as u32, random() as u32);
            let (from, until) = (a.min(b), (random() % 4 > 0).then_some(a.max(b)));
            let until = if random() % 5 == 0 { Some(u32::MAX - 3) } else { until };
            let mut found = index.in_range(from, until);
            found.sort();
            let is_in = |half: u32| half >= from && until.is_none_or(|until| half < until);
            let slots = hashes.iter().enumerate();
            let mut wanted: Vec<(u32, u32)> = slots
                .filter(|(_, hash)| is_in(**hash as u32))
                .map(|(slot, hash)| (*hash as u32, slot as u32))
                .collect();
            wanted.sort();
            assert_eq!(found, wanted, "{from} to {until:?} of {keys}");
        }
    }
}
