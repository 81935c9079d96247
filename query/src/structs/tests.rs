use super::*;
use arrow::array::{Float64Array, Int64Array};

type Pair = Option<(Option<i64>, Option<f64>)>;

fn pairs(rows: &[Pair]) -> ArrayRef {
    let data_type = record_type([("a", DataType::Int64), ("b", DataType::Float64)]);
    let a: Int64Array = rows.iter().map(|row| row.and_then(|(a, _)| a)).collect();
    let b: Float64Array = rows.iter().map(|row| row.and_then(|(_, b)| b)).collect();
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let fields = fields_of(&data_type).unwrap().clone();
    Arc::new(StructArray::new(fields, vec![Arc::new(a), Arc::new(b)], Some(nulls)))
}

/// The order of `record_cmp`: checked with `SELECT ... ORDER BY` over a composite type of PostgreSQL 17.
#[test]
fn orders_are_those_of_composite_types() {
    let ascending = [
        Some((Some(-1), Some(5.0))),
        Some((Some(1), Some(-1.0))),
        Some((Some(1), Some(0.0))),
        Some((Some(1), Some(f64::INFINITY))),
        Some((Some(1), Some(f64::NAN))),
        Some((Some(1), None)),
        Some((None, Some(0.0))),
        Some((None, None)),
    ];
    let found = orders(&pairs(&ascending)).unwrap();
    for row in 1..ascending.len() {
        assert!(found.value(row - 1) < found.value(row), "row {row}");
    }
    let equal = orders(&pairs(&[Some((Some(1), Some(0.0))), Some((Some(1), Some(-0.0))), None])).unwrap();
    assert_eq!(equal.value(0), equal.value(1));
    assert!(equal.is_null(2));
}

#[test]
fn fields_of_a_null_are_null_and_null_tests_look_at_fields() {
    let structs = pairs(&[
        Some((Some(1), None)),
        None,
        Some((None, None)),
        Some((Some(1), Some(1.0))),
    ]);
    let shown = structs.as_struct().columns().to_vec();
    let hidden = StructArray::new(
        structs.as_struct().fields().clone(),
        shown,
        Some(NullBuffer::new_null(4)),
    );
    assert_eq!(field_of(&hidden, "a").unwrap().null_count(), 4);
    let a = field_of(structs.as_struct(), "a").unwrap();
    let a: Vec<Option<i64>> = a.as_primitive::<arrow::datatypes::Int64Type>().iter().collect();
    assert_eq!(a, [Some(1), None, None, Some(1)]);
    let tests = |is_not| null_tests(structs.as_struct(), is_not);
    assert_eq!(tests(false), BooleanArray::from(vec![false, true, true, false]));
    assert_eq!(tests(true), BooleanArray::from(vec![false, false, false, true]));
}
