//! Errors that DataFusion tells only as text, and that PostgreSQL words in another way.

use super::{first_line, near};
use crate::types::type_name;
use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind};

/// An error in PostgreSQL's words; `None`: it has none for it.
pub(super) fn of(text: &str) -> Option<Error> {
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
    of_clause(text).or_else(|| no_function(text))
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// Errors of a clause that asks for what cannot be.
fn of_clause(text: &str) -> Option<Error> {
    let invalid = |code, state, message: String| Some(Error::new(ErrorKind::Invalid, code, message).sqlstate(state));
    let position = |clause, number| format!("{clause} position {number} is not in select list");
    if let Some(number) = between(text, "Order by column out of bounds, specified: ", ",") {
        return invalid("SQL-0329", "42P10", position("ORDER BY", number));
    }
    if text.contains("Order by index starts at 1") {
        return invalid("SQL-0329", "42P10", position("ORDER BY", "0"));
    }
    if let Some(number) = between(text, "Cannot find column with position ", " in SELECT clause") {
        return invalid("SQL-0329", "42P10", position("GROUP BY", number));
    }
    if text.contains("LIMIT must be >=") {
        return invalid("SQL-0330", "2201W", "LIMIT must not be negative".into());
    }
    if text.contains("OFFSET must be >=") {
        return invalid("SQL-0330", "2201X", "OFFSET must not be negative".into());
    }
    for clause in ["LIMIT", "OFFSET"] {
        let before = format!("Expected {clause} to be an integer or null, but got ");
        if let Some((_, is)) = first_line(text).split_once(&before) {
            let message = format!("argument of {clause} must be type bigint, not type {}", shown(is));
            return invalid("SQL-0307", "42804", message);
        }
    }
    for operator in ["UNION", "INTERSECT", "EXCEPT"] {
        if text.contains(&format!("{operator} queries have different number of columns")) {
            let message = format!("each {operator} query must have the same number of columns");
            return invalid("SQL-0331", "42601", message);
        }
    }
    if text.contains("Inconsistent data length across values list") {
        return invalid("SQL-0331", "42601", "VALUES lists must all be the same length".into());
    }
    let (_, relation) = first_line(text).split_once("Invalid qualifier ")?;
    Some(no_relation(relation.trim()))
}

/// The error of a function that does not take such arguments.
fn no_function(text: &str) -> Option<Error> {
    let call = if let Some(name) = between(text, "satisfy a call to '", "' function") {
        let types = between(text, "coercion from ", " to the signature").unwrap_or_default();
        format!("{name}({})", shown_list(types))
    } else {
        let (name, types) = between(text, "given name and argument types '", "'")?.split_once('(')?;
        format!("{name}({})", shown_list(types.trim_end_matches(')')))
    };
    let error = Error::new(
        ErrorKind::Invalid,
        "SQL-0305",
        format!("function {call} does not exist"),
    );
    let attempt = "a function of that name takes other arguments: cast them to its types";
    Some(error.sqlstate("42883").attempt(attempt))
}

/// A type as PostgreSQL calls it.
fn shown(name: &str) -> String {
    let name = name.trim();
    match name.parse::<DataType>() {
        Ok(data_type) => type_name(&data_type).to_string(),
        Err(_) => name.to_string(),
    }
}

fn shown_list(types: &str) -> String {
    let (mut shown_types, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in types.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                shown_types.push(shown(&types[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < types.len() {
        shown_types.push(shown(&types[start..]));
    }
    shown_types.join(", ")
}

/// The error of a name that qualifies columns and is no table of the FROM clause.
pub(super) fn no_relation(name: &str) -> Error {
    let message = format!("missing FROM-clause entry for table \"{name}\"");
    Error::new(ErrorKind::Invalid, "SQL-0332", message).sqlstate("42P01")
}

/// The error of a number that its type cannot hold, which Arrow tells with the name of its own type.
pub(super) fn out_of_range(text: &str) -> Option<Error> {
    let line = first_line(text);
    let name = match line.split_once("Can't cast value ") {
        Some((_, rest)) => rest.rsplit_once(" to type ")?.1,
        None => line.rsplit_once(" is out of range ")?.1,
    };
    let data_type: DataType = name.trim().trim_end_matches('.').parse().ok()?;
    let message = format!("{} out of range", type_name(&data_type));
    Some(Error::new(ErrorKind::Invalid, "EVAL-0001", message).sqlstate("22003"))
}

/// A text up to where it begins to show the program's own values (`Field { name: ...`).
pub(super) fn without_values(text: &str) -> String {
    let is_value = |at: &usize| {
        let before = &text[..*at];
        let word = before
            .rfind(|character: char| !character.is_alphanumeric())
            .map_or(0, |end| end + 1);
        let field = text[at + 3..].split(':').next().unwrap_or_default();
        before[word..].starts_with(char::is_uppercase)
            && !field.is_empty()
            && field
                .chars()
                .all(|character| character.is_ascii_lowercase() || character == '_')
    };
    let Some(at) = text.match_indices(" { ").map(|(at, _)| at).find(is_value) else {
        return text.to_string();
    };
    // `Kind(Kind { ...`: the first says it.
    let shown = &text[..at];
    match shown.rsplit_once('(') {
        Some((before, name)) if name.chars().all(char::is_alphanumeric) => before.to_string(),
        _ => shown.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_programs_own_values_is_not_told() {
        for (text, expected) in [
            (
                "no logical expression AggregateFunction(AggregateFunction { func: Sum }",
                "no logical expression AggregateFunction",
            ),
            (
                "fields differ (input field: Field { name: \"a\" })",
                "fields differ (input field: Field",
            ),
            ("cannot read {\"a\": 1}", "cannot read {\"a\": 1}"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_values(text), expected);
        }
    }

    #[test]
    fn types_in_texts_are_postgresqls() {
        assert_eq!(
            shown_list("Utf8, Decimal128(38, 9), Int64"),
            "text, numeric(38,9), bigint"
        );
        let told = out_of_range("Cast error: Can't cast value 3000000000 to type Int32").unwrap();
        assert_eq!((told.state(), told.message()), ("22003", "integer out of range"));
        let told = out_of_range("Cast error: value of 99999999999999999999 is out of range Int64").unwrap();
        assert_eq!(told.message(), "bigint out of range");
    }
}
