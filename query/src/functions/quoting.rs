//! `format`, `quote_ident` and `quote_literal`: texts that are put into SQL.

use super::joined::{TEXT_BYTES_MAX, too_long};
use super::overloads::failed;
use datafusion::error::Result;

/// PostgreSQL's key words that are no plain names: reserved, and those that may name columns or functions only.
const KEY_WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
    boolean both case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec decimal \
    default deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full \
    grant greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull \
    join lateral leading least left like limit localtime localtimestamp national natural nchar none normalize not \
    notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary \
    real references returning right row select session_user setof similar smallint some substring symmetric table \
    tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose \
    when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot \
    xmlserialize xmltable ";

/// A name as SQL has it: in quotes if it needs them.
pub(super) fn quote_ident(name: &str) -> String {
    let is_letter = |character: char| matches!(character, 'a'..='z' | '_');
    let is_plain = name.starts_with(is_letter)
        && name
            .chars()
            .all(|character| is_letter(character) || character.is_ascii_digit())
        && !KEY_WORDS.contains(&format!(" {name} "));
    match is_plain {
        true => name.to_string(),
        false => crate::names::quoted(name),
    }
}

/// A text as a literal of SQL.
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// One `%...` of a format.
#[derive(Default)]
struct Specifier {
    position: Option<usize>,
    left: bool,
    width: usize,
}

/// The text that `format` makes.
///
/// # Arguments
/// - `value`: the argument of a number from 1; `None`: there is none.
pub(super) fn format_texts<'a>(format: &str, value: impl Fn(usize) -> Option<Option<&'a str>>) -> Result<String> {
    let (mut out, mut rest, mut next) = (String::new(), format, 1);
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let (specifier, kind, behind) = specifier(behind)?;
        let position = specifier.position.unwrap_or(next);
        next = position + 1;
        let Some(argument) = value(position).filter(|_| position > 0) else {
            return Err(failed("22023", "too few arguments for format()"));
        };
        let made = match (kind, argument) {
            ('s', argument) => argument.unwrap_or_default().to_string(),
            ('I', Some(argument)) => quote_ident(argument),
            ('I', None) => return Err(failed("22004", "null values cannot be formatted as an SQL identifier")),
            ('L', argument) => argument.map_or("NULL".into(), quote_literal),
            (other, _) => {
                return Err(failed(
                    "22023",
                    format!("unrecognized format() type specifier \"{other}\""),
                ));
            }
        };
        let blanks = " ".repeat(specifier.width.saturating_sub(made.chars().count()));
        if out.len() + made.len() + blanks.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
        match specifier.left {
            true => out.extend([made, blanks]),
            false => out.extend([blanks, made]),
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Widest field of a format.
const WIDTH_MAX: usize = 1 << 20;

/// What follows a `%`: position, flag, width and kind.
fn specifier(text: &str) -> Result<(Specifier, char, &str)> {
    let unterminated = || failed("22023", "unterminated format() type specifier");
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut found = Specifier::default();
    let mut rest = text;
    let length = digits(rest);
    if length > 0 && rest[length..].starts_with('$') {
        found.position = rest[..length].parse().ok();
        rest = &rest[length + 1..];
    }
    if let Some(behind) = rest.strip_prefix('-') {
        found.left = true;
        rest = behind;
    }
    if rest.starts_with('*') {
        return Err(crate::provider::outside(crate::error::unsupported(
            "a width * in format()",
        )));
    }
    let length = digits(rest);
    if length > 0 {
        let width = rest[..length].parse().ok().filter(|width| *width <= WIDTH_MAX);
        found.width = width.ok_or_else(|| failed("22003", "number is out of range"))?;
        rest = &rest[length..];
    }
    let kind = rest.chars().next().ok_or_else(unterminated)?;
    Ok((found, kind, &rest[kind.len_utf8()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_arguments_in_order_and_by_number() {
        let values = ["a", "b"];
        let made =
            |format: &str| format_texts(format, |n| values.get(n.wrapping_sub(1)).map(|value| Some(*value))).ok();
        assert_eq!(made("%2$s %1$s %s").as_deref(), Some("b a b"));
        assert_eq!(made("[%-3s][%3s]").as_deref(), Some("[a  ][  b]"));
        assert_eq!(made("%s %s %s"), None);
        assert_eq!(made("%"), None);
    }

    #[test]
    fn names_are_quoted_only_where_they_need_it() {
        assert_eq!(quote_ident("a_1"), "a_1");
        assert_eq!(quote_ident("select"), "\"select\"");
        assert_eq!(quote_ident("1a"), "\"1a\"");
        assert_eq!(quote_literal("a\\b'c"), "E'a\\\\b''c'");
    }
}
