//! Texts to values of the declared types, exactly, by the rules of PostgreSQL's input functions.
//!
//! # Rules kept here
//! 1. Whole numbers are read digit by digit: `1.0` and `1e3` are whole, `1.5` is refused, and so is anything
//!    beyond the type's range.
//! 2. NUMERIC(p,s) rounds half away from zero at its scale, and is refused beyond its precision.
//! 3. REAL and DOUBLE PRECISION take the nearest value; a number that would become infinite or zero is refused.
//! 4. A date or time is an ISO 8601 text. TIMESTAMP ignores a zone, TIMESTAMPTZ reads UTC without one;
//!    digits beyond microseconds are rounded.
//! 5. UUID and INTERVAL are in PostgreSQL's forms; TIME is the time of day of ISO 8601, a zone behind it ignored.
//! 6. BYTEA is `\x` and hexadecimal digits, or else base64.
//!
//! # Not here
//! Where the text stands in a line is `json` and `csv`.

pub(crate) mod number;
pub(crate) mod time;

use crate::fault::Refusal;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use cenote_statestore::forms::{Malformed, interval, json, uuid};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A boolean in any of PostgreSQL's spellings: `true`, `yes`, `on`, `1` and their opposites, unique prefixes, any case.
pub(crate) fn boolean(text: &[u8]) -> Result<bool, Refusal> {
    let text = text.trim_ascii();
    let spelt = |word: &str, least: usize| {
        text.len() >= least && text.len() <= word.len() && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text)
    };
    if spelt("true", 1) || spelt("yes", 1) || spelt("on", 2) || text == b"1" {
        Ok(true)
    } else if spelt("false", 1) || spelt("no", 1) || spelt("off", 2) || text == b"0" {
        Ok(false)
    } else {
        Err(Refusal::Syntax)
    }
}

/// A UUID in any of PostgreSQL's forms.
pub(crate) fn uuid(text: &[u8]) -> Result<[u8; uuid::UUID_BYTES], Refusal> {
    uuid::read(text).map_err(|_| Refusal::Syntax)
}

/// An INTERVAL in any of PostgreSQL's forms.
pub(crate) fn interval(text: &[u8]) -> Result<IntervalMonthDayNano, Refusal> {
    let text = std::str::from_utf8(text).map_err(|_| Refusal::Time)?;
    interval::read(text).map_err(|fault| match fault {
        Malformed::Syntax | Malformed::Depth | Malformed::Nul => Refusal::Time,
        Malformed::Range => Refusal::Span,
    })
}

/// Appends a JSON text: as it is for JSON, in its normal form for JSONB.
pub(crate) fn json(text: &[u8], data_type: &DataType, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let text = std::str::from_utf8(text).map_err(|_| Refusal::Syntax)?;
    let read = match json::name_of(data_type) {
        Some("jsonb") => json::normalised(text).map(|normal| out.extend_from_slice(normal.as_bytes())),
        _ => json::check(text).map(|()| out.extend_from_slice(text.as_bytes())),
    };
    read.map_err(|fault| match fault {
        Malformed::Syntax | Malformed::Depth => Refusal::Syntax,
        Malformed::Range => Refusal::Range,
        Malformed::Nul => Refusal::Nul,
    })
}

/// Appends the bytes that `text` stands for: `\x` and hexadecimal digits, or base64 with or without padding.
pub(crate) fn binary(text: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let Some(digits) = text.strip_prefix(b"\\x") else {
        return BASE64.decode_vec(text, out).map_err(|_| Refusal::Syntax);
    };
    if digits.len() % 2 != 0 {
        return Err(Refusal::Syntax);
    }
    let digit = |byte: u8| {
        (byte as char)
            .to_digit(16)
            .map(|value| value as u8)
            .ok_or(Refusal::Syntax)
    };
    for pair in digits.chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_take_the_spellings_of_postgresql() {
        for text in ["t", "TRUE", "y", "yes", "on", "1", " tru "] {
            assert_eq!(boolean(text.as_bytes()), Ok(true), "{text}");
        }
        for text in ["f", "False", "n", "no", "of", "off", "0"] {
            assert_eq!(boolean(text.as_bytes()), Ok(false), "{text}");
        }
        for text in ["", "o", "2", "truee", "nope"] {
            assert_eq!(boolean(text.as_bytes()), Err(Refusal::Syntax), "{text}");
        }
    }

    #[test]
    fn binary_is_hexadecimal_or_base64() {
        let read = |text: &str| {
            let mut out = Vec::new();
            binary(text.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(read("\\x00fF"), Ok(vec![0, 255]));
        assert_eq!(read("AP8="), Ok(vec![0, 255]));
        assert_eq!(read("AP8"), Ok(vec![0, 255]));
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("\\x0"), Err(Refusal::Syntax));
        assert_eq!(read("\\xzz"), Err(Refusal::Syntax));
        assert_eq!(read("*"), Err(Refusal::Syntax));
    }
}
