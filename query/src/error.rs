//! DataFusion's errors as Cenote's: code, SQLSTATE, one thing to try.

use crate::structs::stars::Star;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

/// The error of a clause that is not built.
pub(crate) fn unsupported(clause: impl std::fmt::Display) -> Error {
    let message = format!("cannot run statement: {clause} is not supported yet");
    Error::new(ErrorKind::Unsupported, "SQL-0002", message)
}

/// How the errors of the library of regular expressions begin.
const REGEX_ERROR: &str = "regex parse error";

/// The error of a pattern that is none; the reason is the library's last line.
fn invalid_regex(text: &str) -> Error {
    let reason = text.lines().last().unwrap_or(text).trim_start_matches("error: ");
    let message = format!("invalid regular expression: {reason}");
    Error::new(ErrorKind::Invalid, "EVAL-0005", message).sqlstate("2201B")
}

/// The error of texts or lists that are too long for one batch.
pub(crate) fn too_long_together() -> Error {
    let message = "cannot compute values: the texts or lists of a batch of rows grow beyond what it can hold";
    let error = Error::new(ErrorKind::Invalid, "EVAL-0009", message).sqlstate("54000");
    error
        .fact("most", "2 GiB of text, 2147483647 elements")
        .attempt("a smaller result, or fewer rows at once")
}

/// The error of a name that is no column of a relation.
pub(crate) fn no_column<'n>(relation: &str, name: &str, names: impl IntoIterator<Item = &'n str>) -> Error {
    let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
    near(
        Error::new(ErrorKind::Invalid, "SQL-0302", message).sqlstate("42703"),
        name,
        names,
    )
}

/// Adds the nearest of the names that there are to the error of one that is not, if one is near.
pub(crate) fn near<'n>(error: Error, name: &str, names: impl IntoIterator<Item = &'n str>) -> Error {
    let distance = |known: &&str| strsim::damerau_levenshtein(known, name);
    let nearest = names.into_iter().map(|known| (distance(&known), known)).min();
    match nearest {
        Some((distance, known)) if distance <= 2.min(known.len() / 2).max(1) => {
            error.attempt(format!("perhaps you meant \"{known}\""))
        }
        _ => error,
    }
}

/// Translates an error of planning or execution.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let translated = translate(&error);
    match place.map_or(0, |span| span.start.column) {
        0 => translated,
        // Columns of a statement's tree are positions in its text.
        column => translated.position(column as usize),
    }
}

fn translate(error: &DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None if inner.is::<Star>() => Star::misplaced(),
            None if inner.to_string().starts_with(REGEX_ERROR) => invalid_regex(&inner.to_string()),
            None => Error::bug(inner.to_string()),
        },
        DataFusionError::ArrowError(arrow, _) => from_arrow(arrow.to_string(), arrow),
        DataFusionError::SchemaError(schema, _) => from_schema(schema),
        DataFusionError::ResourcesExhausted(text) => {
            let message = "cannot run query: it needs too much memory";
            let error = Error::new(ErrorKind::Unavailable, "QUERY-0001", message).sqlstate("53200");
            // The lines before tell every operator's share.
            let last = text.lines().last().unwrap_or_default();
            error
                .fact("cause", last.trim_start_matches("Error: "))
                .attempt("read fewer rows, or start the server with a larger --query-memory")
        }
        DataFusionError::NotImplemented(text) => Error::new(
            ErrorKind::Unsupported,
            "SQL-0301",
            format!("cannot plan query: {}", first_line(text)),
        ),
        DataFusionError::Execution(text) => of_argument(from_text(text.clone())),
        other => from_text(other.strip_backtrace()),
    }
}

/// What a function said of its arguments without a code of its own.
fn of_argument(error: Error) -> Error {
    if error.code() != "SQL-0300" {
        return error;
    }
    let state = match error.message() {
        "negative substring length not allowed" => "22011",
        _ => "22023",
    };
    Error::new(ErrorKind::Invalid, "EVAL-0004", error.message()).sqlstate(state)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

fn from_arrow(text: String, arrow: &arrow::error::ArrowError) -> Error {
    use arrow::error::ArrowError;
    let invalid = |code, state, text: String| Error::new(ErrorKind::Invalid, code, text).sqlstate(state);
    match arrow {
        ArrowError::DivideByZero => invalid("EVAL-0002", "22012", "division by zero".into()),
        ArrowError::ArithmeticOverflow(_) => invalid("EVAL-0001", "22003", format!("value out of range: {text}")),
        ArrowError::CastError(_) | ArrowError::ParseError(_) => from_cast(&text),
        ArrowError::InvalidArgumentError(text) if text.contains("verflow") || text.contains("too large") => {
            invalid("EVAL-0001", "22003", format!("numeric field overflow: {text}"))
        }
        ArrowError::OffsetOverflowError(_) => too_long_together(),
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<Error>() {
            Some(own) => own.clone(),
            None => of_argument(from_text(text)),
        },
        ArrowError::ComputeError(_) | ArrowError::InvalidArgumentError(_) => of_argument(from_text(text)),
        _ => from_text(text),
    }
}

fn from_cast(text: &str) -> Error {
    if let Some(error) = of_input(text) {
        return error;
    }
    let state = if text.contains("overflow") || text.contains("out of range") || text.contains("Can't cast value") {
        "22003"
    } else {
        "22P02"
    };
    Error::new(
        ErrorKind::Invalid,
        "EVAL-0003",
        format!("cannot convert value: {}", first_line(text)),
    )
    .sqlstate(state)
}

/// What the type's own reader says of a text that Arrow could not cast.
fn of_input(text: &str) -> Option<Error> {
    let (_, rest) = text.split_once("Cannot cast string '")?;
    let (value, to) = rest.rsplit_once("' to value of ")?;
    let data_type = first_line(to).split_once(" type")?.0.parse().ok()?;
    crate::pgtext::parse_array(&[Some(value)], &data_type).err()
}

fn from_schema(error: &SchemaError) -> Error {
    let invalid = |code, state, text: String| Error::new(ErrorKind::Invalid, code, text).sqlstate(state);
    match error {
        SchemaError::AmbiguousReference { field } => invalid(
            "SQL-0303",
            "42702",
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::FieldNotFound { field, valid_fields } => {
            let near = valid_fields
                .iter()
                .map(|valid| (strsim::damerau_levenshtein(&valid.name, &field.name), valid))
                .filter(|(distance, _)| *distance <= 2)
                .min_by_key(|(distance, _)| *distance);
            let repeated = valid_fields
                .iter()
                .any(|valid| valid.name != field.name && crate::names::shown_name(&valid.name) == field.name);
            if repeated {
                return invalid(
                    "SQL-0303",
                    "42702",
                    format!("column reference \"{}\" is ambiguous", field.name),
                );
            }
            let error = invalid("SQL-0302", "42703", format!("column \"{}\" does not exist", field.name));
            match near {
                Some((_, near)) => error.attempt(format!("perhaps you meant \"{}\"", near.name)),
                None => error,
            }
        }
        other => invalid("SQL-0304", "42701", other.to_string()),
    }
}

/// Errors that DataFusion tells only as text.
fn from_text(text: String) -> Error {
    if let Some(error) = worded(&text) {
        return error;
    }
    let text = first_line(&text);
    let text = text
        .trim_start_matches("Error during planning: ")
        .trim_start_matches("External error: ")
        .trim_start_matches("Optimizer rule ")
        .to_string();
    let lower = text.to_lowercase();
    let (code, state) = if lower.contains("regular expression did not compile") {
        ("EVAL-0005", "2201B")
    } else if lower.contains("error parsing timestamp") {
        ("EVAL-0003", "22007")
    } else if lower.contains("invalid function")
        || lower.contains("no function matches")
        || lower.contains("function") && lower.contains("not found")
    {
        ("SQL-0305", "42883")
    } else if lower.contains("table") && lower.contains("not found") {
        ("SQL-0202", "42P01")
    } else if lower.contains("overflow") {
        ("EVAL-0001", "22003")
    } else if lower.contains("divide by zero") || lower.contains("division by zero") {
        ("EVAL-0002", "22012")
    } else if lower.contains("must appear in the group by") || lower.contains("not in group by") {
        ("SQL-0306", "42803")
    } else if lower.contains("cast") || lower.contains("pars") {
        ("EVAL-0003", "22P02")
    } else if lower.contains("coerc") || lower.contains("cannot infer common") || lower.contains("argument types") {
        ("SQL-0307", "42804")
    } else {
        ("SQL-0300", "42000")
    };
    Error::new(ErrorKind::Invalid, code, text).sqlstate(state)
}

/// Errors of DataFusion that PostgreSQL words in another way.
fn worded(text: &str) -> Option<Error> {
    let between = |before: &str, after: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after).map(|(found, _)| found)
    };
    let invalid = |code, state, message: String| Some(Error::new(ErrorKind::Invalid, code, message).sqlstate(state));
    if let Some(name) = between("Invalid function '", "'") {
        let error = invalid("SQL-0305", "42883", format!("function {name} does not exist"))?;
        let known = between("Did you mean '", "'");
        return Some(near(error, name, known));
    }
    if text.contains("must appear in the GROUP BY clause") {
        let column = between("column \"", "\"")?;
        let rest = "must appear in the GROUP BY clause or be used in an aggregate function";
        return invalid("SQL-0306", "42803", format!("column \"{column}\" {rest}"));
    }
    if let (Some(value), true) = (
        between("Error parsing timestamp from '", "' using format"),
        text.contains("input is out of range"),
    ) {
        let message = format!("date/time field value out of range: \"{value}\"");
        return invalid("EVAL-0003", "22008", message);
    }
    if text.contains("non-boolean predicate") {
        let (_, is) = first_line(text).rsplit_once("returning ")?;
        let is = is
            .trim()
            .parse()
            .map_or(is.to_string(), |is| crate::types::type_name(&is).to_string());
        let message = format!("argument of WHERE must be type boolean, not type {is}");
        return invalid("SQL-0307", "42804", message);
    }
    if text.contains("The subquery should only return one column") {
        return invalid("SQL-0300", "42601", "subquery must return only one column".to_string());
    }
    None
}
