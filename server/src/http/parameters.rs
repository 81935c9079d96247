//! Query parameters: declared once for parsing, validation and OpenAPI.

use super::error::ApiError;
use crate::encode::Numbers;
use std::borrow::Cow;
use std::str::FromStr;

/// What a parameter's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A number from 0 to 2^64 - 1.
    Integer,
    /// `true` or `false`.
    Flag,
    /// One of these.
    Choice(&'static [&'static str]),
}

/// A query parameter that a route takes.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub kind: Kind,
    /// What it does, one sentence.
    pub help: &'static str,
}

/// `numbers=raw`.
pub const NUMBERS: Parameter = Parameter {
    name: super::key_query::NUMBERS,
    kind: Kind::Choice(&["raw", "string"]),
    help: "`raw`: integers beyond 2^53 and decimals as JSON numbers; default `string`: as strings.",
};

/// The parameters of one request, unescaped, in their order.
#[derive(Debug)]
pub struct Parameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// Parses a query string.
    ///
    /// # Errors
    /// 400: a parameter that is not in `allowed`, or one given twice.
    pub fn parse(query: Option<&'a str>, allowed: &[Parameter]) -> Result<Parameters<'a>, ApiError> {
        check_utf8(query)?;
        let mut found: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for (name, value) in pairs(query) {
            if !allowed.iter().any(|parameter| parameter.name == name) {
                return Err(unknown(&name, allowed.iter().map(|parameter| parameter.name)));
            }
            if found.iter().any(|(known, _)| *known == name) {
                return Err(given_twice(&name));
            }
            found.push((name, value));
        }
        Ok(Parameters(found))
    }

    /// The value of a parameter; `None` if it is not there.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_ref())
    }

    /// The value of a numeric parameter.
    ///
    /// # Errors
    /// 400: not a number, or out of its range.
    pub fn integer<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| bad_value(name, text, "a whole number, 0 or more"))
    }

    /// The value of a flag; absent is `false`, present without a value is `true`.
    ///
    /// # Errors
    /// 400: neither `true` nor `false`.
    pub fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(text) => Err(bad_value(name, text, "true or false")),
        }
    }

    /// The value of [`NUMBERS`].
    ///
    /// # Errors
    /// 400: another value.
    pub fn numbers(&self) -> Result<Numbers, ApiError> {
        self.text(NUMBERS.name).map_or(Ok(Numbers::Exact), parse_numbers)
    }
}

/// The value of [`NUMBERS`].
pub fn parse_numbers(text: &str) -> Result<Numbers, ApiError> {
    match text {
        "raw" => Ok(Numbers::Raw),
        "string" => Ok(Numbers::Exact),
        _ => Err(bad_value(NUMBERS.name, text, "raw or string")),
    }
}

/// Refuses a query string that is no text: unescaping would put other characters in the place of its bytes.
///
/// # Errors
/// 400: an escape that is no UTF-8.
pub fn check_utf8(query: Option<&str>) -> Result<(), ApiError> {
    let (mut bytes, mut rest) = (Vec::new(), query.unwrap_or("").as_bytes());
    while let [first, behind @ ..] = rest {
        let escaped = match (first, behind) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("cannot read the parameters in the address: {error}");
            Err(ApiError::invalid("HTTP-0002", message).attempt("percent-encode them as UTF-8"))
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// The pairs of a query string, unescaped.
pub fn pairs(query: Option<&str>) -> form_urlencoded::Parse<'_> {
    form_urlencoded::parse(query.unwrap_or("").as_bytes())
}

/// The error of a parameter that comes a second time.
pub fn given_twice(name: &str) -> ApiError {
    ApiError::invalid("HTTP-0004", format!("cannot read parameter `{name}`: given twice"))
        .attempt(format!("give `{name}` once"))
}

fn bad_value(name: &str, text: &str, expected: &'static str) -> ApiError {
    let shown: String = text.chars().take(80).collect();
    ApiError::invalid("HTTP-0004", format!("cannot read parameter `{name}`: bad value"))
        .fact("seen", format!("`{shown}`"))
        .fact("expected", expected)
}

/// The error of a parameter that a route does not take.
pub fn unknown<'n>(name: &str, allowed: impl Iterator<Item = &'n str> + Clone) -> ApiError {
    let shown: String = name.chars().take(80).collect();
    let error = ApiError::invalid(
        "HTTP-0003",
        format!("cannot use parameter `{shown}`: this route does not take it"),
    );
    let names: Vec<&str> = allowed.clone().collect();
    let error = if names.is_empty() {
        error
    } else {
        error.fact("parameters", names.join(", "))
    };
    match nearest(name, allowed) {
        Some(near) => error.attempt(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The name most like `name`, if one is like it at all.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |candidate: &&str| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    names
        .map(|candidate| (likeness(&candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .fold(None, |best, found| match best {
            Some((likeness, _)) if likeness >= found.0 => best,
            _ => Some(found),
        })
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[Parameter] = &[
        Parameter {
            name: "limit",
            kind: Kind::Integer,
            help: "",
        },
        Parameter {
            name: "where",
            kind: Kind::Text,
            help: "",
        },
        Parameter {
            name: "snapshot",
            kind: Kind::Flag,
            help: "",
        },
        NUMBERS,
    ];

    #[test]
    fn values_are_unescaped() {
        let query = Parameters::parse(Some("where=total%20%3E+60&limit=5&&snapshot"), ALLOWED)
            .ok()
            .unwrap();
        assert_eq!(query.text("where"), Some("total > 60"));
        assert_eq!(query.integer::<usize>("limit").ok().flatten(), Some(5));
        assert!(query.flag("snapshot").ok().unwrap());
        assert_eq!(query.text("numbers"), None);
    }

    #[test]
    fn unknown_parameter_is_refused_with_the_nearest_name() {
        let error = Parameters::parse(Some("limti=5"), ALLOWED).err().unwrap();
        assert_eq!(
            error.error().message(),
            "cannot use parameter `limti`: this route does not take it"
        );
        assert_eq!(error.error().hint(), Some("did you mean `limit`?"));
        let error = Parameters::parse(Some("xyzzy=5"), ALLOWED).err().unwrap();
        assert_eq!(error.error().hint(), None);
    }

    #[test]
    fn bad_and_repeated_values_are_refused() {
        let query = Parameters::parse(Some("limit=many&snapshot=maybe&numbers=rare"), ALLOWED)
            .ok()
            .unwrap();
        assert!(query.integer::<usize>("limit").is_err());
        assert!(query.flag("snapshot").is_err());
        assert!(query.numbers().is_err());
        assert!(Parameters::parse(Some("limit=1&limit=2"), ALLOWED).is_err());
    }
}
