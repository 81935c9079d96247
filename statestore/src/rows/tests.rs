use super::*;
use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{Field, Schema};
use std::sync::Arc;

fn store_of(column: &ArrayRef) -> (RowStore, KeyIndex) {
    let field = Field::new("k", column.data_type().clone(), true);
    let mut store = RowStore::new(Arc::new(Schema::new(vec![field])));
    let mut index = KeyIndex::default();
    for row in 0..column.len() {
        let slot = store.allocate();
        store.write_one(slot, &RowStore::view([0], [column]), row);
        index.insert(row as u64, slot);
    }
    (store, index)
}

/// Its entry looks like a free place of the index.
const LIKE_A_FREE_PLACE: u64 = u64::MAX;

#[test]
fn a_hash_of_ones_is_a_key_that_is_not_there() {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    for column in [longs, texts] {
        let (store, index) = store_of(&column);
        let (view, mut found) = (RowStore::view([0], [&column]), Vec::new());
        store.find_all(&index, &[0, LIKE_A_FREE_PLACE], &view, &mut found);
        assert_eq!(found, [0, crate::NO_SLOT]);
    }
}

#[test]
fn some_rows_of_a_view_are_found_by_their_numbers() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
    let (store, index) = store_of(&column);
    let mut found = Vec::new();
    store.find_some(&index, &[2, 0], &RowStore::view([0], [&column]), &[2, 0], &mut found);
    assert_eq!(found, [2, 0]);
}

#[test]
fn rows_that_are_appended_stand_behind_all_others_and_slots_go_on_behind_them() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]));
    let (mut store, _) = store_of(&column);
    store.release(1);
    store.reserve(4);
    assert_eq!(store.append(std::slice::from_ref(&column), 3), 3);
    assert_eq!(store.append(&[column.slice(0, 1)], 1), 6);
    assert_eq!((store.slots(), store.live()), (7, 6));
    assert_eq!(&store.gather(&[0], &[3, 4, 5])[0], &column);
    assert!(store.same(&[0], 0, 6) && !store.same(&[0], 0, 5));
    assert_eq!(store.allocate(), 1);
    assert_eq!(store.allocate(), 7);
    store.write(&[1, 7], &[column.slice(0, 1)], &[0, 0]);
    assert!(store.same(&[0], 1, 7));
}
