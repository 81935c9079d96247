//! Sizes and spans of time as users write them: `64MiB`, `30s`, `1h`.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes. Units are those of 1024, as PostgreSQL reads `kB`, `MB` and `GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// Splits `12.5 MiB` into the number and the unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn scaled(number: &str, scale: f64) -> Option<f64> {
    let value: f64 = number.parse().ok()?;
    let scaled = value * scale;
    (scaled.is_finite() && scaled < 9e18).then_some(scaled)
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let (number, unit) = split(text);
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            "t" | "tb" | "tib" => 1u64 << 40,
            _ => {
                return Err(format!(
                    "`{text}` is not a size: expected bytes or a number with KiB, MiB, GiB or TiB"
                ));
            }
        };
        let bytes =
            scaled(number, scale as f64).ok_or_else(|| format!("`{text}` is not a size: expected e.g. 64MiB"))?;
        Ok(ByteSize(bytes as u64))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (number, unit) = split(text);
        let seconds = match unit.to_ascii_lowercase().as_str() {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => {
                return Err(format!(
                    "`{text}` is not a span of time: expected a number with ms, s, min, h or d"
                ));
            }
        };
        let seconds =
            scaled(number, seconds).ok_or_else(|| format!("`{text}` is not a span of time: expected e.g. 30s"))?;
        Ok(Span(
            Duration::try_from_secs_f64(seconds).map_err(|error| format!("`{text}`: {error}"))?,
        ))
    }
}

/// Reads a TOML integer or string through `FromStr`.
struct TextOrNumber<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> de::Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text of a number and a unit")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<ByteSize, D::Error> {
        source.deserialize_any(TextOrNumber(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Span, D::Error> {
        source.deserialize_any(TextOrNumber(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert_eq!("64MiB".parse(), Ok(ByteSize(64 << 20)));
        assert_eq!("1.5 gb".parse(), Ok(ByteSize(3 << 29)));
        assert!("64 furlongs".parse::<ByteSize>().unwrap_err().contains("furlongs"));
        assert!("-1".parse::<ByteSize>().is_err());
        assert!("".parse::<ByteSize>().is_err());
    }

    #[test]
    fn spans_are_read_in_every_unit() {
        assert_eq!("250ms".parse(), Ok(Span(Duration::from_millis(250))));
        assert_eq!("30".parse(), Ok(Span(Duration::from_secs(30))));
        assert_eq!("2h".parse(), Ok(Span(Duration::from_secs(7200))));
        assert!("soon".parse::<Span>().is_err());
    }
}
