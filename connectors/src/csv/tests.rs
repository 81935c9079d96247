//! CSV rows: the rules one by one, then random tables written and read back.

use super::*;
use crate::testing::{BIGINT, Dice, TEXT, TIMESTAMP, read_text, schema};
use crate::text::TextRows;
use arrow::datatypes::{DataType, SchemaRef};

fn style(header: bool) -> CsvStyle {
    CsvStyle {
        header,
        ..CsvStyle::default()
    }
}

fn read_styled(table: &SchemaRef, style: CsvStyle, text: &[u8]) -> (Vec<String>, Vec<String>) {
    let rows = Rows::new(table, None).unwrap();
    let mut csv = CsvRows::new(style, HeaderRule::EveryColumn, table.fields().len());
    let head = if csv.wants_header() {
        csv.header(&rows, text, true).unwrap().unwrap()
    } else {
        0
    };
    read_text(table, TextRows::Csv(csv), &text[head..])
}

fn read(table: &SchemaRef, text: &str) -> (Vec<String>, Vec<String>) {
    read_styled(table, style(false), text.as_bytes())
}

#[test]
fn quoted_fields_hold_delimiters_quotes_and_line_feeds() {
    let table = schema(&[("a", TEXT), ("b", TEXT), ("c", BIGINT)]);
    let (rows, bad) = read(
        &table,
        "x,y,1\n\"a,b\",\"say \"\"hi\"\"\",2\r\n\"two\nlines\",,3\n\"\",\"\"\"\",4",
    );
    assert_eq!(rows, ["x|y|1", "a,b|say \"hi\"|2", "two\nlines|NULL|3", "|\"|4"]);
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn an_unquoted_null_text_is_null_and_a_quoted_one_is_not() {
    let table = schema(&[("a", TEXT), ("n", BIGINT)]);
    assert_eq!(read(&table, ",\n\"\",1").0, ["NULL|NULL", "|1"]);
    let styled = CsvStyle {
        null: "\\N".to_string(),
        ..style(false)
    };
    let (rows, bad) = read_styled(&table, styled, b"\\N,\\N\n\"\\N\",1\n,2\nx,\n");
    assert_eq!(rows, ["NULL|NULL", "\\N|1", "|2"]);
    assert_eq!(bad, ["4: field `n`: \"\" is not a valid BIGINT"]);
}

#[test]
fn a_header_gives_columns_in_any_order_and_other_fields_are_ignored() {
    let table = schema(&[("id", BIGINT), ("ts", TIMESTAMP)]);
    let (rows, bad) = read_styled(
        &table,
        style(true),
        b"extra,TS,id\nx,2024-01-02 03:04:05.000006,9007199254740993\n",
    );
    assert_eq!(rows, ["9007199254740993|2024-01-02T03:04:05.000006"]);
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_header_without_a_column_names_the_nearest() {
    let table = schema(&[("amount", BIGINT)]);
    let rows = Rows::new(&table, None).unwrap();
    let mut csv = CsvRows::new(style(true), HeaderRule::EveryColumn, 1);
    let fault = csv.header(&rows, b"id,amuont\n", true).unwrap_err();
    assert_eq!(
        fault.reason,
        "field `amount`: the header does not have it; the nearest name is `amuont`"
    );
    let mut csv = CsvRows::new(style(true), HeaderRule::OnlyColumns, 1);
    let fault = csv.header(&rows, b"amuont\n", true).unwrap_err();
    assert_eq!(
        fault.reason,
        "field `amuont`: there is no such column; the nearest column is `amount`"
    );
}

#[test]
fn a_record_of_another_width_is_a_bad_row() {
    let table = schema(&[("a", BIGINT), ("b", BIGINT)]);
    let (rows, bad) = read(&table, "1,2\n3\n4,5,6\n7,8\n");
    assert_eq!(rows, ["1|2", "7|8"]);
    assert_eq!(
        bad,
        [
            "2: field `b`: missing, the record has 1 of 2 fields",
            "3: the record has 3 fields, expected 2"
        ]
    );
}

#[test]
fn broken_quotes_are_a_fault_of_their_first_line_alone() {
    let table = schema(&[("a", TEXT), ("b", BIGINT)]);
    let (rows, bad) = read(&table, "x,1\n\"open,2\ny,3\n\"z\"z,4\nw,5\n");
    assert_eq!(rows, ["x|1", "y|3", "w|5"]);
    assert_eq!(bad.iter().map(|bad| &bad[..2]).collect::<Vec<_>>(), ["2:", "4:"]);
    let (rows, bad) = read(&table, "x,1\n\"open,2\ny,3");
    assert_eq!(rows, ["x|1", "y|3"]);
    assert_eq!(bad, ["2: invalid CSV: a quoted field is not closed"]);
}

#[test]
fn line_numbers_count_the_lines_inside_records() {
    let table = schema(&[("a", TEXT), ("b", BIGINT)]);
    let (rows, bad) = read(&table, "\"1\n2\n3\",1\n\nx,bad\n\"5\n6\",bad\ny,2");
    assert_eq!(rows, ["1\n2\n3|1", "y|2"]);
    assert_eq!(
        bad,
        [
            "5: field `b`: \"bad\" is not a valid BIGINT",
            "6: field `b`: \"bad\" is not a valid BIGINT"
        ]
    );
}

#[test]
fn a_quote_inside_an_unquoted_field_is_text() {
    let table = schema(&[("a", TEXT), ("b", TEXT)]);
    assert_eq!(read(&table, "5\" pipe,x\"\n").0, ["5\" pipe|x\""]);
}

#[test]
fn a_null_character_and_invalid_utf8_are_bad_rows() {
    let table = schema(&[("a", TEXT)]);
    let (rows, bad) = read_styled(&table, style(false), b"ok\na\0b\n\xff\nfine\n");
    assert_eq!(rows, ["ok", "fine"]);
    assert_eq!(
        bad,
        [
            "2: field `a`: the character U+0000 cannot be stored in TEXT",
            "3: invalid UTF-8 at byte 1: found byte 0xff"
        ]
    );
}

#[test]
fn random_tables_are_read_back_as_written() {
    const PIECES: &[&str] = &["a", "\"", ",", "\n", "\r\n", "é", "日本", " ", "\"\"", "12", "x\ty"];
    let table = schema(&[("a", TEXT), ("n", BIGINT), ("b", TEXT)]);
    for seed in 1..=200 {
        let mut dice = Dice::new(seed);
        let mut text = String::new();
        let mut expected = Vec::new();
        for _ in 0..50 {
            let field = |dice: &mut Dice| {
                let value: String = (0..dice.below(5)).map(|_| *dice.pick(PIECES)).collect();
                let null = dice.below(5) == 0;
                let written = if null {
                    String::new()
                } else {
                    format!("\"{}\"", value.replace('"', "\"\""))
                };
                (written, if null { "NULL".to_string() } else { value })
            };
            let (a, shown_a) = field(&mut dice);
            let (b, shown_b) = field(&mut dice);
            let n = dice.next() as i64;
            text += &format!("{a},{n},{b}{}", dice.pick(&["\n", "\r\n"]));
            expected.push(format!("{shown_a}|{n}|{shown_b}"));
        }
        assert_eq!(read(&table, &text), (expected, vec![]), "seed {seed}");
    }
}

#[test]
fn a_wide_integer_keeps_its_digits() {
    let table = schema(&[("n", DataType::Decimal128(38, 0))]);
    assert_eq!(read(&table, "327267367867168100000\n").0, ["327267367867168100000"]);
}
