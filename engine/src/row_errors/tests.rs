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
        let mut errors = RowErrors::new("map", &[]);
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
    let mut errors = RowErrors::new("map", &[]);
    let failing = |_: usize, _: &RecordBatch| -> Result<()> { Err(Error::bug("broken")) };
    let outcome = errors.apart(&numbers(&[Some(1), None]), &failing, &mut |_, ()| (), &|_| 1);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Bug);
    assert!(errors.take().unwrap().is_none());
}

#[test]
fn an_error_of_any_class_is_its_rows_and_what_is_too_long_for_a_batch_is_tried_in_parts() {
    let rows = numbers(&[Some(1), Some(2), Some(3), Some(4)]);
    let mut errors = RowErrors::new("map", &[]);
    let mut parts = Vec::new();
    let refusing = |_: usize, rows: &RecordBatch| -> Result<usize> {
        let values = rows.column(0).as_primitive::<Int64Type>();
        if values.values().contains(&2) {
            return Err(Error::new(ErrorKind::Unsupported, "SQL-0301", "not supported"));
        }
        assert!(rows.num_rows() == 1, "byte array offset overflow");
        Ok(rows.num_rows())
    };
    errors
        .apart(&rows, &refusing, &mut |first, _| parts.push(first), &|_| 1)
        .unwrap();
    assert_eq!(parts, [0, 2, 3]);
    let told = errors.take().unwrap().unwrap();
    assert_eq!(told.rows().column(2).as_string::<i32>().value(0), "0A000");
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn a_panic_of_another_kind_is_passed_on() {
    let panicking = |_: usize, _: &RecordBatch| -> Result<()> { panic!("index out of bounds") };
    let _ = RowErrors::new("map", &[]).apart(&numbers(&[Some(1)]), &panicking, &mut |_, ()| (), &|_| 1);
}

#[test]
fn texts_of_errors_are_cut_and_columns_have_the_names_given() {
    let fields = ["t", "t", "b"].map(|name| Field::new(name, DataType::Utf8, true));
    let mut fields = fields.to_vec();
    fields[2] = Field::new("b", DataType::Binary, true);
    let long = "ä".repeat(100_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![long.as_str()])),
        Arc::new(StringArray::from(vec![None::<&str>])),
        Arc::new(arrow::array::BinaryArray::from(vec![&[0u8, 255][..]])),
    ];
    let row = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let mut errors = RowErrors::new("map", &["x.t".to_string(), "y.t".to_string()]);
    let error = Error::new(ErrorKind::Invalid, "EVAL-0003", format!("cannot convert value: {long}"));
    errors.add(&row, &error, 1).unwrap();
    let told = errors.take().unwrap().unwrap();
    let text = |column: usize| told.rows().column(column).as_string::<i32>().value(0).to_string();
    assert_eq!(text(3).chars().count(), REASON_CHARS_MAX + 1);
    let short = "ä".repeat(200);
    assert_eq!(text(4), format!("{{\"x.t\":\"{short}…\",\"y.t\":null,\"b\":\"00ff\"}}"));
}
