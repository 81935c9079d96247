use super::*;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use cenote_statestore::ErrorKind;

fn numbers(values: &[Option<i64>]) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).unwrap()
}

fn refuse_negative(_: usize, rows: &RecordBatch) -> Result<Vec<Option<i64>>> {
    let values: Vec<Option<i64>> = rows.column(0).as_primitive::<Int64Type>().iter().collect();
    match values.iter().flatten().any(|value| *value < 0) {
        true => Err(Error::new(ErrorKind::Invalid, "SQL-0301", "negative").sqlstate("22003")),
        false => Ok(values),
    }
}

#[test]
fn rows_at_fault_are_found_and_the_others_keep_their_order_and_place() {
    for faulty in [vec![], vec![0], vec![6], vec![0, 1, 2, 3, 4, 5, 6], vec![2, 5]] {
        let values: Vec<Option<i64>> = (0..7)
            .map(|i| Some(if faulty.contains(&i) { -i - 1 } else { i }))
            .collect();
        let mut errors = RowErrors::new("map");
        let mut good = vec![None; 7];
        errors
            .apart(
                &numbers(&values),
                &refuse_negative,
                &mut |first, part| (0..part.len()).for_each(|i| good[first + i] = part[i]),
                &|row| row as i64 + 10,
            )
            .unwrap();
        let expected: Vec<Option<i64>> = values.iter().map(|value| value.filter(|value| *value >= 0)).collect();
        assert_eq!(good, expected);
        let told = errors.take().unwrap();
        assert_eq!(told.as_ref().map_or(0, Changes::len), faulty.len());
        for (at, row) in faulty.iter().enumerate() {
            let told = told.as_ref().unwrap();
            assert_eq!(told.weights().get(at), row + 10);
            let text = told.rows().column(4).as_string::<i32>().value(at);
            assert_eq!(text, format!("{{\"n\":{}}}", -row - 1));
        }
        assert!(errors.take().unwrap().is_none());
    }
}

#[test]
fn an_error_that_is_no_rows_stops_the_operator() {
    let mut errors = RowErrors::new("map");
    let failing = |_: usize, _: &RecordBatch| -> Result<()> { Err(Error::bug("broken")) };
    let outcome = errors.apart(&numbers(&[Some(1), None]), &failing, &mut |_, ()| (), &|_| 1);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Bug);
    assert!(errors.take().unwrap().is_none());
}
