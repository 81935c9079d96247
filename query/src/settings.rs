//! Session settings: SET, SHOW, and what a PostgreSQL client is told at its start.

use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Set, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Version of PostgreSQL whose behaviour clients may expect.
pub const SERVER_VERSION: &str = "16.6";

/// Settings that clients set as a matter of course, with their values here. Others are refused by name.
const KNOWN: [(&str, &str); 32] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "repeatable read"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "on"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_messages", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
    ("session_authorization", "cenote"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "repeatable read"),
    ("transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
];

/// Settings whose value decides results: another value than ours is refused.
const FIXED: [&str; 18] = [
    "bytea_output",
    "client_encoding",
    "datestyle",
    "intervalstyle",
    "server_version",
    "server_encoding",
    "standard_conforming_strings",
    "integer_datetimes",
    "timezone",
    "server_version_num",
    "idle_in_transaction_session_timeout",
    "in_hot_standby",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "session_authorization",
    "transaction_read_only",
];

/// Schemas that a name without one may be looked for in; all of it is found in the one of them that users have.
const SEARCHED: [&str; 5] = ["$user", "public", "pg_catalog", "information_schema", ""];

/// Settings reported to a PostgreSQL client at its start.
const REPORTED: [(&str, &str); 11] = [
    ("server_version", "server_version"),
    ("server_encoding", "server_encoding"),
    ("client_encoding", "client_encoding"),
    ("application_name", "application_name"),
    ("is_superuser", "is_superuser"),
    ("session_authorization", "session_authorization"),
    ("DateStyle", "datestyle"),
    ("IntervalStyle", "intervalstyle"),
    ("TimeZone", "timezone"),
    ("integer_datetimes", "integer_datetimes"),
    ("standard_conforming_strings", "standard_conforming_strings"),
];

pub(crate) fn defaults() -> BTreeMap<String, String> {
    KNOWN
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

pub(crate) fn reported(settings: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let value = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let mut reported: Vec<(String, String)> = REPORTED
        .iter()
        .map(|(shown, name)| (shown.to_string(), value(name)))
        .collect();
    for (name, shown) in &mut reported {
        if name == "server_version" {
            *shown = format!("{SERVER_VERSION} (Cenote {})", env!("CARGO_PKG_VERSION"));
        }
    }
    reported
}

fn unknown(name: &str) -> Error {
    let near = KNOWN
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(known, name), *known))
        .min();
    let error = Error::new(
        ErrorKind::Invalid,
        "SQL-0501",
        format!("unrecognized configuration parameter \"{name}\""),
    )
    .sqlstate("42704");
    match near {
        Some((distance, known)) if distance <= 3 => error.attempt(format!("perhaps you meant \"{known}\"")),
        _ => error,
    }
}

/// SET.
pub(crate) fn set(settings: &mut BTreeMap<String, String>, set: &Set) -> Result<()> {
    match set {
        Set::SingleAssignment { variable, values, .. } => {
            let name = setting_name(variable);
            let value = values.iter().map(text_of).collect::<Vec<_>>().join(", ");
            assign(settings, &name, value)
        }
        Set::SetTimeZone { value, .. } => assign(settings, "timezone", text_of(value)),
        Set::SetNames { charset_name, .. } => assign(settings, "client_encoding", charset_name.value.clone()),
        Set::SetNamesDefault {} => Ok(()),
        Set::SetRole { role_name: None, .. } => Ok(()),
        Set::SetRole {
            role_name: Some(role), ..
        } => assign(settings, "session_authorization", role.value.clone()),
        other => Err(crate::error::unsupported(other)),
    }
}

/// The name of a setting as SET has it.
pub(crate) fn setting_name(name: &ObjectName) -> String {
    name.to_string().to_lowercase().replace('"', "")
}

/// Takes a parameter that a client connects with. What is no setting of ours (`user`, `database`) is kept as it is;
/// `options` holds settings as the command line of PostgreSQL's server takes them.
///
/// # Errors
/// As [`assign`].
pub(crate) fn start(settings: &mut BTreeMap<String, String>, name: &str, value: &str) -> Result<()> {
    let name = name.to_lowercase();
    if name == "options" {
        return start_options(settings, value);
    }
    if KNOWN.iter().any(|(known, _)| *known == name) {
        return assign(settings, &name, value.to_string());
    }
    settings.insert(name, value.to_string());
    Ok(())
}

/// `-c name=value` and `--name=value`, as many as there are.
fn start_options(settings: &mut BTreeMap<String, String>, options: &str) -> Result<()> {
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(assignment) => Some(assignment),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c"),
        };
        let Some((name, value)) = assignment.and_then(|assignment| assignment.split_once('=')) else {
            let message = format!("cannot connect: the option \"{word}\" is not supported yet");
            let error = Error::new(ErrorKind::Unsupported, "SQL-0505", message);
            return Err(error.attempt("options='-c statement_timeout=5s'"));
        };
        assign(settings, &name.to_lowercase().replace('-', "_"), value.to_string())?;
    }
    Ok(())
}

/// Gives a setting a value; `default` gives it back its own.
///
/// # Errors
/// `Invalid` 42704: there is no such setting. `Unsupported`: it has one value only, and this is another.
pub(crate) fn assign(settings: &mut BTreeMap<String, String>, name: &str, value: String) -> Result<()> {
    // Names with a dot are for extensions and programs, which PostgreSQL keeps without knowing them.
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    if known.is_none() && !name.contains('.') {
        return Err(unknown(name));
    }
    let default = known.map(|(_, value)| value.to_string());
    let value = if value.eq_ignore_ascii_case("default") {
        default.clone().unwrap_or_default()
    } else {
        value
    };
    if FIXED.contains(&name) && !same_meaning(name, &value, default.as_deref().unwrap_or_default()) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "SQL-0502",
            format!("cannot set {name} to \"{value}\": not supported yet"),
        )
        .fact("supported", default.unwrap_or_default()));
    }
    check_value(name, &value)?;
    settings.insert(name.to_string(), value);
    Ok(())
}

/// Refuses values that cannot be kept to.
fn check_value(name: &str, value: &str) -> Result<()> {
    let is_taken = match name {
        "statement_timeout" | "lock_timeout" => parse_time(value).is_some(),
        "default_transaction_read_only" => is_switch(value),
        _ => true,
    };
    if !is_taken {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        return Err(Error::new(ErrorKind::Invalid, "SQL-0504", message).sqlstate("22023"));
    }
    let is_kept_to = match name {
        "search_path" => value.split(',').all(|schema| {
            let schema = schema.trim().trim_matches(['"', '\'']).to_lowercase();
            SEARCHED.contains(&schema.as_str())
        }),
        // A transaction reads one epoch and is refused if its rows changed: stricter than any level but serializable.
        "default_transaction_isolation" | "transaction_isolation" => !value.eq_ignore_ascii_case("serializable"),
        _ => true,
    };
    if !is_kept_to {
        let message = format!("cannot set {name} to \"{value}\": not supported yet");
        return Err(Error::new(ErrorKind::Unsupported, "SQL-0502", message));
    }
    Ok(())
}

fn is_switch(value: &str) -> bool {
    is_on(value) || ["off", "false", "no", "0"].contains(&value.to_lowercase().as_str())
}

fn is_on(value: &str) -> bool {
    ["on", "true", "yes", "1"].contains(&value.to_lowercase().as_str())
}

/// How long a statement may take; `None`: as long as it needs.
pub(crate) fn statement_timeout(settings: &BTreeMap<String, String>) -> Option<Duration> {
    let limit = settings.get("statement_timeout").and_then(|text| parse_time(text));
    limit.filter(|limit| !limit.is_zero())
}

/// Whether transactions only read unless they say otherwise.
pub(crate) fn only_reads(settings: &BTreeMap<String, String>) -> bool {
    settings
        .get("default_transaction_read_only")
        .is_some_and(|value| is_on(value))
}

/// The longest time that a setting holds: 2147483647 ms, as in PostgreSQL.
const TIME_SECONDS_MAX: f64 = 2_147_483.647;

/// Reads a time as PostgreSQL's settings have it: a whole number of milliseconds, or a number with a unit.
///
/// # Returns
/// `None`: that is not a time.
fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * seconds;
    (seconds <= TIME_SECONDS_MAX).then(|| Duration::from_secs_f64(seconds))
}

fn same_meaning(name: &str, given: &str, ours: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' ', '\''], "");
    let (given, ours) = (plain(given), plain(ours));
    match name {
        "timezone" => ["utc", "gmt", "etc/utc", "0", "+00", "+00:00", "00:00"].contains(&given.as_str()),
        "datestyle" => given.starts_with("iso"),
        "client_encoding" => given == "utf8" || given == "unicode",
        "standard_conforming_strings" => given == "on" || given == "true",
        _ => given == ours,
    }
}

fn text_of(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

/// SHOW: the setting's name as a column, and its value.
pub(crate) fn show(settings: &BTreeMap<String, String>, name: &str) -> Result<(String, String)> {
    let name = match name {
        "time zone" => "timezone",
        "transaction isolation level" => "transaction_isolation",
        other => other,
    };
    match settings.get(name) {
        Some(value) => Ok((name.to_string(), value.clone())),
        None => Err(unknown(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_postgresqls_units() {
        assert_eq!(parse_time("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("2min"), Some(Duration::from_secs(120)));
        assert_eq!(parse_time("0"), Some(Duration::ZERO));
        for wrong in ["", "s", "-1", "1 week", "1s2", "10000000000000000000s", "25d"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
