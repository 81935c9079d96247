//! Lists against plain vectors.

use super::*;
use crate::rows::{Random, with_seeds};

/// A hash that few rows share in full, and many in the bits that are not kept.
fn hash_of_row(row: u64) -> u64 {
    (row / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0x1f | (row % 3)
}

/// Adds and removes rows of several keys; `reach`: about how long lists become.
fn churn(seed: u64, reach: usize) {
    let mut random = Random::new(seed);
    let mut lists = Lists::default();
    let mut heads = [Head::default(); 7];
    let mut model: [Vec<u32>; 7] = Default::default();
    let (mut rows, mut next): (Vec<u64>, u64) = (Vec::new(), 0);
    for _ in 0..4000 {
        let key = random.below(7);
        let grows = random.below(reach * 2) >= model[key].len();
        if grows {
            let slot = rows.len() as u32;
            rows.push(next);
            assert_eq!(
                lists.find(heads[key], hash_of_row(next), |slot| rows[slot as usize] == next),
                None
            );
            lists.add(&mut heads[key], slot, hash_of_row(next));
            model[key].push(slot);
            next += 1;
        } else {
            let slot = model[key].swap_remove(random.below(model[key].len()));
            let row = rows[slot as usize];
            let found = lists.find(heads[key], hash_of_row(row), |slot| rows[slot as usize] == row);
            let (found, position) = found.expect("a row that was added");
            assert_eq!(found, slot);
            lists.remove(&mut heads[key], position);
        }
        let mut found = Vec::new();
        lists.slots(heads[key], &mut found);
        found.sort_unstable();
        model[key].sort_unstable();
        assert_eq!(found, model[key]);
        assert_eq!(heads[key].is_empty(), model[key].is_empty());
    }
}

#[test]
fn lists_of_any_length_hold_what_was_added_and_not_removed() {
    for reach in [1, 2, 4, 9, 17, 20, 100] {
        with_seeds(3, |seed| churn(seed, reach));
    }
}

#[test]
fn memory_of_lists_is_used_again() {
    let mut lists = Lists::default();
    let mut head = Head::default();
    let mut bytes = Vec::new();
    for _ in 0..3 {
        (0..100).for_each(|slot| lists.add(&mut head, slot, u64::from(slot) << 5));
        for _ in 0..100 {
            lists.remove(&mut head, 0);
        }
        bytes.push(lists.memory_bytes());
    }
    assert!(head.is_empty());
    assert_eq!(bytes[1], bytes[2]);
}
