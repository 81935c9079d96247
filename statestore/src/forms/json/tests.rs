use super::access::{at_path, element, member, text_of};
use super::*;

#[test]
fn jsonb_has_the_normal_form_of_postgresqls_manual() {
    let cases = [
        (
            r#"{"bar": "baz", "balance": 7.77, "active":false}"#,
            r#"{"bar": "baz", "active": false, "balance": 7.77}"#,
        ),
        (r#"{"reading": 1.230e-5}"#, r#"{"reading": 0.00001230}"#),
        (
            r#" { "b" : [ 1 ,2 , {} , [ ] ] , "a" : null } "#,
            r#"{"a": null, "b": [1, 2, {}, []]}"#,
        ),
        (r#"{"a":1,"a":2,"b":3,"a":4}"#, r#"{"a": 4, "b": 3}"#),
        (r#"{"aa":1,"b":2,"c":3,"":0}"#, r#"{"": 0, "b": 2, "c": 3, "aa": 1}"#),
        (r#""\u00e9\/\ud83d\udeb2\u0007""#, "\"é/🚲\\u0007\""),
        ("\"\u{7f}\\n\\t\\\"\\\\\"", "\"\u{7f}\\n\\t\\\"\\\\\""),
    ];
    for (given, normal) in cases {
        assert_eq!(normalised(given).as_deref(), Ok(normal), "{given}");
        assert_eq!(normalised(normal).as_deref(), Ok(normal), "{normal}");
    }
}

#[test]
fn numbers_keep_their_digits_and_lose_their_exponents() {
    let cases = [
        ("1e5", "100000"),
        ("1.50", "1.50"),
        ("-0", "0"),
        ("-0.0", "0.0"),
        ("1.5e1", "15"),
        ("1.5e0", "1.5"),
        ("1.25e1", "12.5"),
        ("12e-1", "1.2"),
        ("12E-4", "0.0012"),
        ("0e5", "0"),
        ("0.00e1", "0.0"),
        ("9007199254740993", "9007199254740993"),
        (
            "-12345678901234567890123456789.123456789",
            "-12345678901234567890123456789.123456789",
        ),
    ];
    for (given, normal) in cases {
        assert_eq!(normalised(given).as_deref(), Ok(normal), "{given}");
    }
    assert_eq!(normalised("1e131072"), Err(Malformed::Range));
    assert_eq!(normalised("1e-16384"), Err(Malformed::Range));
    assert_eq!(normalised("1e999999999999999999999"), Err(Malformed::Range));
}

#[test]
fn what_is_no_json_is_refused() {
    let wrong = [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "- 1",
        "nul",
        "nullx",
        "True",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud83d\"",
        "\"\\udeb2\"",
        "\"\t\"",
        "1 2",
        "[1] x",
        "NaN",
        "\"\\",
        "1a",
        "[1}",
    ];
    for text in wrong {
        assert_eq!(check(text), Err(Malformed::Syntax), "{text:?}");
        assert_eq!(normalised(text), Err(Malformed::Syntax), "{text:?}");
    }
    assert_eq!(check("\"\\u0000\""), Ok(()));
    assert_eq!(normalised("\"\\u0000\""), Err(Malformed::Nul));
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(check(&deep(DEPTH_MAX)), Ok(()));
    assert_eq!(check(&deep(DEPTH_MAX + 1)), Err(Malformed::Depth));
    assert_eq!(check(&"[".repeat(1_000_000)), Err(Malformed::Depth));
}

#[test]
fn equal_values_are_one_text_to_compare() {
    let key = |text| comparable(&normalised(text).unwrap());
    assert_eq!(key("[1.0, 1.10, 100, \"1.0\"]"), "[1, 1.1, 100, \"1.0\"]");
    assert_eq!(key("{\"1.0\": -0.50}"), "{\"1.0\": -0.5}");
    assert_eq!(key("1e1"), key("10.000"));
    assert_ne!(key("\"a\\\"1.0\""), key("\"a\\\"1\""));
}

#[test]
fn parts_are_found_by_key_position_and_path() {
    let value = r#" {"a": [10, {"b": "x\ty"}, null], "c" :"}", "a\"b": 1, "c": false} "#;
    assert_eq!(member(value, "a"), Some(r#"[10, {"b": "x\ty"}, null]"#));
    assert_eq!(member(value, "c"), Some("false"));
    assert_eq!(member(value, "a\"b"), Some("1"));
    assert_eq!(member(value, "d"), None);
    assert_eq!(member("[1]", "0"), None);
    assert_eq!(element("[1, [2,3],4 ]", 1), Some("[2,3]"));
    assert_eq!(element("[1, [2,3],4 ]", -1), Some("4"));
    assert_eq!(element("[1]", 1), None);
    assert_eq!(element("[1]", -2), None);
    assert_eq!(at_path(value, ["a", "1", "b"]), Some(r#""x\ty""#));
    assert_eq!(at_path(value, ["a", "b"]), None);
    assert_eq!(text_of(r#""x\ty""#).unwrap().as_deref(), Some("x\ty"));
    assert_eq!(text_of("null").unwrap(), None);
    assert_eq!(text_of("[1, 2]").unwrap().as_deref(), Some("[1, 2]"));
}
