use super::*;
use arrow::array::{
    Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array, ListArray, ListBuilder, StringArray,
};

fn round_trip(array: ArrayRef) {
    let mut column = Column::new(array.data_type());
    let rows: Vec<u32> = (0..array.len() as u32).collect();
    let slots: Vec<u32> = rows.iter().map(|row| row * 2 + 1).collect();
    column.grow(array.len() * 2 + 2);
    column.write(&slots, &array, &rows);
    assert_eq!(&column.gather(&slots), &array);
    let view = ArrayView::new(&array);
    for (slot, row) in slots.iter().zip(&rows) {
        assert!(column.equals(*slot, &view, *row as usize));
    }
    let mut side_by_side = Column::new(array.data_type());
    side_by_side.grow(array.len() + 2);
    let slots: Vec<u32> = rows.iter().map(|row| row + 1).collect();
    side_by_side.write(&slots, &array, &rows);
    let mut behind = Column::new(array.data_type());
    behind.grow(5);
    behind.write(&[0], &array, &[0]);
    behind.reserve(1, array.len() * 2);
    behind.append(1, &array);
    assert_eq!(behind.slots(), 1 + array.len());
    behind.append(1 + array.len(), &array.slice(1, array.len() - 1));
    assert_eq!(&behind.gather(&slots), &array, "whole arrays");
    let again: Vec<u32> = (slots.len() as u32 + 1..2 * slots.len() as u32).collect();
    assert_eq!(
        &behind.gather(&again),
        &array.slice(1, array.len() - 1),
        "a part of an array"
    );
    assert!(behind.same(0, 1) && behind.same(2, again[0]) && !behind.same(1, 2));
    let part = 1..array.len() as u32;
    let expected = array.slice(1, array.len() - 1);
    assert_eq!(&side_by_side.gather_run(part.start + 1..part.end + 1), &expected);
    assert_eq!(side_by_side.stored(2) == Stored::Null, array.is_null(1));
}

#[test]
fn every_kind_of_value_comes_back_as_it_was_written() {
    round_trip(Arc::new(Int64Array::from(vec![
        Some(i64::MIN),
        None,
        Some(0),
        Some(9007199254740993),
    ])));
    round_trip(Arc::new(Float64Array::from(vec![
        Some(-0.0),
        Some(f64::INFINITY),
        None,
    ])));
    round_trip(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])));
    let wide = Decimal128Array::from(vec![Some(i128::MAX / 4), None, Some(-1)])
        .with_precision_and_scale(38, 9)
        .unwrap();
    round_trip(Arc::new(wide));
    let texts = StringArray::from(vec![Some("{}"), None, Some("[1, 2, 3, \"longer\"]")]);
    round_trip(json::column_of(texts, &json::jsonb_type()));
    let lists = [Some(vec![Some(1), None, Some(i64::MIN)]), None, Some(vec![])];
    round_trip(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)));
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a"), None, Some("longer than twelve bytes"), Some("")]);
    lists.append_null();
    lists.append_value([Some("")]);
    round_trip(Arc::new(lists.finish()));
    let uuids = [Some([0xffu8; 16]), None, Some([7; 16])].into_iter();
    round_trip(Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap(),
    ));
    round_trip(Arc::new(StringArray::from(vec![
        Some("short"),
        None,
        Some("longer than twelve bytes"),
        Some(""),
    ])));
}

#[test]
fn long_texts_survive_overwriting_and_compaction() {
    let mut column = Column::new(&DataType::Utf8);
    column.grow(64);
    for round in 0..200u32 {
        let texts: Vec<String> = (0..64)
            .map(|slot| format!("text number {slot} of round {round} {}", "x".repeat(40)))
            .collect();
        let array: ArrayRef = Arc::new(StringArray::from(texts));
        let all: Vec<u32> = (0..64).collect();
        column.write(&all, &array, &all);
        assert_eq!(&column.gather(&all), &array);
    }
    assert!(
        column.memory_bytes() < 400_000,
        "{} bytes are held for 64 short texts",
        column.memory_bytes()
    );
}

#[test]
fn clearing_a_null_slot_leaves_a_value_that_is_not_null() {
    let mut column = Column::new(&DataType::Int64);
    column.grow(1);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    column.write(&[0], &null, &[0]);
    column.clear(0);
    assert_eq!(column.gather(&[0]).null_count(), 0);
}
