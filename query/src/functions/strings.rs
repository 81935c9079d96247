//! Functions of texts and bytes whose results or errors are not DataFusion's.
//!
//! Regular expressions are those of Rust's `regex`: no back-references and no look-around, which PostgreSQL has.

use super::joined::{concat, concat_ws, formatted};
use super::overloads::{Entry, Kind, Overload, Run, failed, gives};
use super::quoting::{quote_ident, quote_literal};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, StringArray};
use arrow::compute::cast;
use arrow::compute::kernels::regexp::regexp_match;
use arrow::datatypes::{DataType, Int32Type};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use Kind::{Any, Bytes, Int, Text};

pub(super) const FUNCTIONS: &[Entry] = &[
    ("concat", &[], &[Overload::many(&[Any], gives::TEXT, concat)]),
    (
        "concat_ws",
        &[],
        &[Overload::many(&[Text, Any], gives::TEXT, concat_ws)],
    ),
    (
        "format",
        &[],
        &[
            Overload::many(&[Text], gives::TEXT, formatted),
            Overload::many(&[Text, Any], gives::TEXT, formatted),
        ],
    ),
    (
        "quote_ident",
        &[],
        &[Overload::own(&[Text], gives::TEXT, |a| {
            texts(a, |text| Ok(quote_ident(text)))
        })],
    ),
    (
        "quote_literal",
        &[],
        &[Overload::own(&[Any], gives::TEXT, |a| quoted(a, None))],
    ),
    (
        "quote_nullable",
        &[],
        &[Overload::own(&[Any], gives::TEXT, |a| quoted(a, Some("NULL")))],
    ),
    (
        "split_part",
        &[],
        &[Overload {
            takes: &[Text, Text, Int],
            is_variadic: false,
            gives: gives::TEXT,
            run: Run::Adjusted(check_field),
        }],
    ),
    (
        "substring",
        &["substr"],
        &[
            Overload::own(&[Text, Int], gives::TEXT, |a| parts(a, false)),
            Overload::own(&[Text, Int, Int], gives::TEXT, |a| parts(a, false)),
            Overload::own(&[Text, Text], gives::TEXT, |a| first_match(a, false)),
            Overload::own(&[Bytes, Int], gives::BYTES, |a| parts(a, true)),
            Overload::own(&[Bytes, Int, Int], gives::BYTES, |a| parts(a, true)),
        ],
    ),
    (
        "regexp_substr",
        &[],
        &[Overload::own(&[Text, Text], gives::TEXT, |a| first_match(a, true))],
    ),
    (
        "regexp_replace",
        &[],
        &[
            Overload {
                takes: &[Text, Text, Text],
                is_variadic: false,
                gives: gives::TEXT,
                run: Run::Adjusted(replacement),
            },
            Overload {
                takes: &[Text, Text, Text, Text],
                is_variadic: false,
                gives: gives::TEXT,
                run: Run::Adjusted(replacement),
            },
        ],
    ),
    ("chr", &[], &[Overload::own(&[Int], gives::TEXT, characters)]),
    ("encode", &[], &[Overload::own(&[Bytes, Text], gives::TEXT, encoded)]),
    ("decode", &[], &[Overload::own(&[Text, Text], gives::BYTES, decoded)]),
    (
        "character_length",
        &["length"],
        &[
            Overload::inner(&[Text]),
            Overload::own(&[Bytes], gives::INT, |a| {
                let bytes = a[0].as_binary::<i32>();
                Ok(Arc::new(
                    bytes
                        .iter()
                        .map(|bytes| bytes.map(|bytes| bytes.len() as i32))
                        .collect::<Int32Array>(),
                ))
            }),
        ],
    ),
    ("get_byte", &[], &[Overload::own(&[Bytes, Int], gives::INT, byte_at)]),
];

fn texts(a: &[ArrayRef], compute: fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let computed = a[0].as_string::<i32>().iter().map(|text| text.map(compute).transpose());
    Ok(Arc::new(computed.collect::<Result<StringArray>>()?))
}

/// Values in the form that a client is shown.
pub(super) fn shown(values: &ArrayRef) -> Result<StringArray> {
    let written = match values.data_type() {
        DataType::Null => return Ok(StringArray::new_null(values.len())),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => cast(values, &DataType::Utf8)?,
        _ => crate::casts::text::write_texts(values).map_err(crate::provider::outside)?,
    };
    Ok(written.as_string::<i32>().clone())
}

fn quoted(a: &[ArrayRef], null: Option<&str>) -> Result<ArrayRef> {
    let values = shown(&a[0])?;
    let quoted = values.iter().map(|value| match value {
        Some(value) => Some(quote_literal(value)),
        None => null.map(str::to_string),
    });
    Ok(Arc::new(quoted.collect::<StringArray>()))
}

fn check_field(args: &mut [ColumnarValue]) -> Result<()> {
    let is_zero = match &args[2] {
        ColumnarValue::Scalar(ScalarValue::Int32(field)) => *field == Some(0),
        ColumnarValue::Array(fields) => fields.as_primitive::<Int32Type>().iter().any(|field| field == Some(0)),
        _ => false,
    };
    // DataFusion's counts in BIGINT.
    args[2] = args[2].cast_to(&DataType::Int64, None)?;
    match is_zero {
        true => Err(failed("22023", "field position must not be zero")),
        false => Ok(()),
    }
}

/// The part that starts at a position from 1, of so many characters or bytes.
///
/// # Returns
/// Where it starts, from 0, and how many are left out and taken.
fn part(start: i32, length: Option<i32>) -> Result<(usize, usize)> {
    let from = start as i64 - 1;
    let end = match length {
        Some(length) if length < 0 => return Err(failed("22011", "negative substring length not allowed")),
        Some(length) => from + length as i64,
        None => i64::MAX,
    };
    let first = from.max(0);
    Ok((first as usize, (end - first).max(0) as usize))
}

fn parts(a: &[ArrayRef], of_bytes: bool) -> Result<ArrayRef> {
    let starts = a[1].as_primitive::<Int32Type>();
    let lengths = a.get(2).map(|lengths| lengths.as_primitive::<Int32Type>());
    let place = |row: usize| {
        let is_known = a.iter().all(|array| array.is_valid(row));
        is_known
            .then(|| part(starts.value(row), lengths.map(|lengths| lengths.value(row))))
            .transpose()
    };
    if of_bytes {
        let bytes = a[0].as_binary::<i32>();
        let cut = |row: usize| {
            let cut = |(skip, take): (usize, usize)| {
                let rest = bytes.value(row).get(skip..).unwrap_or_default();
                &rest[..take.min(rest.len())]
            };
            Ok(place(row)?.map(cut))
        };
        let cut: Vec<Option<&[u8]>> = (0..bytes.len()).map(cut).collect::<Result<_>>()?;
        return Ok(Arc::new(BinaryArray::from(cut)));
    }
    let values = a[0].as_string::<i32>();
    let cut = |row: usize| {
        let cut = |(skip, take)| characters_of(values.value(row), skip, take);
        Ok(place(row)?.map(cut))
    };
    Ok(Arc::new((0..values.len()).map(cut).collect::<Result<StringArray>>()?))
}

fn characters_of(text: &str, skip: usize, take: usize) -> &str {
    let start = text.char_indices().nth(skip).map_or(text.len(), |(at, _)| at);
    let rest = &text[start..];
    let end = rest.char_indices().nth(take).map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

/// What of a text matches: the first group if there is one and it is asked for, else all.
fn first_match(a: &[ArrayRef], whole: bool) -> Result<ArrayRef> {
    let patterns: ArrayRef = match whole {
        true => Arc::new(
            a[1].as_string::<i32>()
                .iter()
                .map(|p| p.map(|p| format!("({p})")))
                .collect::<StringArray>(),
        ),
        false => a[1].clone(),
    };
    let found = regexp_match(&a[0], &patterns, None)?;
    let found = found.as_list::<i32>();
    let first = (0..found.len()).map(|row| {
        let groups = found.is_valid(row).then(|| found.value(row))?;
        let groups = groups.as_string::<i32>();
        (groups.len() > 0 && groups.is_valid(0)).then(|| groups.value(0).to_string())
    });
    Ok(Arc::new(first.collect::<StringArray>()))
}

/// A replacement in PostgreSQL's terms as one of DataFusion's: `\&` is what matched, `$` is itself.
fn replacement(args: &mut [ColumnarValue]) -> Result<()> {
    let rewritten = |text: &str| text.replace('$', "$$").replace("\\&", "\\0");
    args[2] = match &args[2] {
        ColumnarValue::Scalar(ScalarValue::Utf8(text)) => {
            ColumnarValue::Scalar(ScalarValue::Utf8(text.as_deref().map(rewritten)))
        }
        ColumnarValue::Array(array) => {
            let texts = array.as_string::<i32>().iter().map(|text| text.map(rewritten));
            ColumnarValue::Array(Arc::new(texts.collect::<StringArray>()))
        }
        other => other.clone(),
    };
    Ok(())
}

fn characters(a: &[ArrayRef]) -> Result<ArrayRef> {
    let character = |code: Option<i32>| match code {
        None => Ok(None),
        Some(0) => Err(failed("54000", "null character not permitted")),
        Some(code) if code < 0 => Err(failed("22023", "character number must be positive")),
        Some(code) => match char::from_u32(code as u32) {
            Some(character) => Ok(Some(character.to_string())),
            None => Err(failed(
                "54000",
                format!("requested character not valid for encoding: {code}"),
            )),
        },
    };
    let codes = a[0].as_primitive::<Int32Type>().iter().map(character);
    Ok(Arc::new(codes.collect::<Result<StringArray>>()?))
}

fn unknown_encoding(name: &str) -> datafusion::error::DataFusionError {
    failed("22023", format!("unrecognized encoding: \"{name}\""))
}

fn encoded(a: &[ArrayRef]) -> Result<ArrayRef> {
    let pairs = a[0].as_binary::<i32>().iter().zip(a[1].as_string::<i32>());
    let encode = |(bytes, name): (Option<&[u8]>, Option<&str>)| {
        let (Some(bytes), Some(name)) = (bytes, name) else {
            return Ok(None);
        };
        Ok(Some(match name.to_lowercase().as_str() {
            "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            "base64" => in_lines(STANDARD.encode(bytes)),
            "escape" => escaped(bytes),
            _ => return Err(unknown_encoding(name)),
        }))
    };
    Ok(Arc::new(pairs.map(encode).collect::<Result<StringArray>>()?))
}

/// Base 64 in lines of 76 characters, as MIME has it.
fn in_lines(text: String) -> String {
    let lines: Vec<&str> = (0..text.len())
        .step_by(76)
        .map(|at| &text[at..(at + 76).min(text.len())])
        .collect();
    lines.join("\n")
}

fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\\' => "\\\\".to_string(),
        0 | 0x80.. => format!("\\{byte:03o}"),
        byte => (*byte as char).to_string(),
    };
    bytes.iter().map(one).collect()
}

fn decoded(a: &[ArrayRef]) -> Result<ArrayRef> {
    let pairs = a[0].as_string::<i32>().iter().zip(a[1].as_string::<i32>());
    let decode = |(text, name): (Option<&str>, Option<&str>)| {
        let (Some(text), Some(name)) = (text, name) else {
            return Ok(None);
        };
        let solid: String = text
            .chars()
            .filter(|character| !character.is_ascii_whitespace())
            .collect();
        let read = |literal: &str| {
            let bytes = crate::pgtext::parse_scalar(Some(literal), &DataType::Binary, &Default::default());
            match bytes {
                Ok(ScalarValue::Binary(bytes)) => Ok(bytes),
                Ok(_) => Ok(None),
                Err(error) => Err(error.sqlstate("22023")),
            }
        };
        match name.to_lowercase().as_str() {
            "hex" => read(&format!("\\x{solid}")).map_err(crate::provider::outside),
            "escape" => read(text).map_err(crate::provider::outside),
            "base64" => match STANDARD.decode(&solid) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => Err(failed("22023", format!("invalid base64 sequence: {error}"))),
            },
            _ => Err(unknown_encoding(name)),
        }
    };
    let decoded: Vec<Option<Vec<u8>>> = pairs.map(decode).collect::<Result<_>>()?;
    Ok(Arc::new(
        decoded.iter().map(|bytes| bytes.as_deref()).collect::<BinaryArray>(),
    ))
}

fn byte_at(a: &[ArrayRef]) -> Result<ArrayRef> {
    let pairs = a[0].as_binary::<i32>().iter().zip(a[1].as_primitive::<Int32Type>());
    let found = pairs.map(|(bytes, position)| {
        let (Some(bytes), Some(position)) = (bytes, position) else {
            return Ok(None);
        };
        match usize::try_from(position).ok().and_then(|position| bytes.get(position)) {
            Some(byte) => Ok(Some(*byte as i32)),
            None => {
                let last = bytes.len() as i64 - 1;
                Err(failed(
                    "2202E",
                    format!("index {position} out of valid range, 0..{last}"),
                ))
            }
        }
    });
    Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
}
