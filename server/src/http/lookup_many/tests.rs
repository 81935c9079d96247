//! Reading of key lists and shape of answers.

use super::*;
use crate::http::lookup::tests::found;

fn parse(body: &str) -> Result<Keys, ApiError> {
    Keys::parse(body.as_bytes())
}

#[test]
fn keys_may_be_scalars_arrays_or_objects() {
    let scalars = parse(r#"{"keys":[1, "ann", null, 12345678901234567890.50]}"#)
        .ok()
        .unwrap();
    assert!(scalars.columns.is_empty());
    assert_eq!(scalars.keys[0], [Some("1".to_owned())]);
    assert_eq!(scalars.keys[2], [None]);
    assert_eq!(scalars.keys[3], [Some("12345678901234567890.50".to_owned())]);
    let arrays = parse(r#"{"keys":[["ann", 1], ["bob", 2]]}"#).ok().unwrap();
    assert_eq!(arrays.keys[1], [Some("bob".to_owned()), Some("2".to_owned())]);
    let objects = parse(r#"{"keys":[{"usr":"ann","id":1},{"id":2,"usr":"bob"}]}"#)
        .ok()
        .unwrap();
    assert_eq!(objects.columns, ["usr", "id"]);
    assert_eq!(objects.keys[1], [Some("bob".to_owned()), Some("2".to_owned())]);
}

#[test]
fn mixed_and_nested_keys_are_refused() {
    for body in [
        r#"{"keys":[{"usr":"ann"},{"id":2}]}"#,
        r#"{"keys":[{"usr":"ann"},1]}"#,
        r#"{"keys":[{"usr":"ann"},{"usr":"bob","id":2}]}"#,
        r#"{"keys":[[{"a":1}]]}"#,
        r#"{"keys":1}"#,
        r#"{}"#,
        r#"{"key":[1]}"#,
    ] {
        assert!(parse(body).is_err(), "{body}");
    }
}

#[test]
fn results_come_in_the_order_of_the_keys() {
    let wanted = parse(r#"{"keys":[["zoe",9],["bob",2],["ann",1]]}"#).ok().unwrap();
    let found = found(&[("ann", 1, 5), ("bob", 2, 6)], vec![2, 1]);
    let answer = write_answer(&found, &wanted, Numbers::Exact).ok().unwrap();
    let expected = r#"{"name":"t","epoch":7,"results":[{"key":{"usr":"zoe","id":9},"value":null},{"key":{"usr":"bob","id":2},"value":{"usr":"bob","id":2,"n":6}},{"key":{"usr":"ann","id":1},"value":{"usr":"ann","id":1,"n":5}}]}"#;
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

#[test]
fn keys_that_are_not_unique_answer_lists() {
    let wanted = parse(r#"{"keys":[{"usr":"ann"},{"usr":"zoe"}]}"#).ok().unwrap();
    let found = found(&[("ann", 1, 5), ("ann", 2, 6)], vec![0, 0]);
    let answer: serde_json::Value =
        serde_json::from_slice(&write_answer(&found, &wanted, Numbers::Exact).ok().unwrap()).unwrap();
    assert_eq!(answer["results"][0]["values"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["results"][1]["values"], serde_json::json!([]));
}
