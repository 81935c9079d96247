//! JSON values as parameters of a statement.

use super::error::ApiError;
use datafusion::scalar::ScalarValue;
use serde_json::{Number, Value};

/// Digits of the largest NUMERIC.
const DIGITS_MAX: usize = 38;

/// Reads the field `params`.
///
/// # Returns
/// One value per parameter. A whole number is a BIGINT, any other number a NUMERIC with the digits that it came
/// with; text is cast by the statement; lists and objects are their JSON text.
///
/// # Errors
/// 400: not a list.
pub fn parameters(field: Option<&Value>) -> Result<Vec<ScalarValue>, ApiError> {
    match field {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(values)) => Ok(values.iter().map(value).collect()),
        Some(_) => Err(
            ApiError::invalid("HTTP-0006", "cannot read `params` of the request's body: not a list")
                .attempt("{\"sql\": \"SELECT $1 + $2\", \"params\": [1, 2]}"),
        ),
    }
}

fn value(json: &Value) -> ScalarValue {
    match json {
        Value::Null => ScalarValue::Null,
        Value::Bool(flag) => ScalarValue::Boolean(Some(*flag)),
        Value::Number(digits) => number(digits),
        Value::String(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => ScalarValue::Utf8(Some(json.to_string())),
    }
}

fn number(number: &Number) -> ScalarValue {
    if let Some(whole) = number.as_i64() {
        return ScalarValue::Int64(Some(whole));
    }
    let text = number.to_string();
    match decimal(&text) {
        Some((digits, precision, scale)) => ScalarValue::Decimal128(Some(digits), precision, scale),
        None => ScalarValue::Utf8(Some(text)),
    }
}

/// The digits of a plain decimal number, its precision and its scale; `None`: it has an exponent or does not fit.
fn decimal(text: &str) -> Option<(i128, u8, i8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches('-').len() + fraction.len();
    if digits > DIGITS_MAX || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = format!("{whole}{fraction}").parse().ok()?;
    Some((value, digits as u8, fraction.len() as i8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        let json = serde_json::from_str(r#"[1, 9007199254740993, -0.10, 12345678901234567890, 1e3, "x", null, true]"#);
        let values = parameters(Some(&json.unwrap())).ok().unwrap();
        assert_eq!(values[0], ScalarValue::Int64(Some(1)));
        assert_eq!(values[1], ScalarValue::Int64(Some(9_007_199_254_740_993)));
        assert_eq!(values[2], ScalarValue::Decimal128(Some(-10), 3, 2));
        assert_eq!(
            values[3],
            ScalarValue::Decimal128(Some(12_345_678_901_234_567_890), 20, 0)
        );
        assert!(matches!(&values[4], ScalarValue::Utf8(Some(text)) if text.parse() == Ok(1000.0)));
        assert_eq!(values[5], ScalarValue::Utf8(Some("x".into())));
        assert_eq!(values[6], ScalarValue::Null);
        assert_eq!(values[7], ScalarValue::Boolean(Some(true)));
    }

    #[test]
    fn params_must_be_a_list() {
        assert!(parameters(Some(&serde_json::json!({"a": 1}))).is_err());
        assert!(parameters(None).ok().unwrap().is_empty());
    }
}
