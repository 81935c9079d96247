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
