//! Names of collections as programs give them: `view`, `schema.view`, and either part in double quotes.
//!
//! # Rules kept here
//! 1. Names are taken as they are, with their capitals. A dot ends a schema only behind the name of one: `a.b` is a table
//!    `a.b`, `public.cenote_state.x` one that is called `cenote_state.x`.
//! 2. A part in double quotes is what stands in them, `""` for one of them.

use super::Readable;
use crate::catalog::{CATALOG_SCHEMA, PUBLIC, STATE_SCHEMA};
use std::borrow::Cow;

const SCHEMAS: [&str; 3] = [PUBLIC, STATE_SCHEMA, CATALOG_SCHEMA];

/// The schema and the name that a text means.
pub fn schema_and_name(text: &str) -> (&'static str, Cow<'_, str>) {
    let found = SCHEMAS.into_iter().find_map(|schema| {
        let quoted = text
            .strip_prefix('"')
            .and_then(|rest| rest.strip_prefix(schema)?.strip_prefix('"'));
        let behind = quoted.or_else(|| text.strip_prefix(schema))?;
        Some((schema, behind.strip_prefix('.')?))
    });
    let (schema, name) = found.unwrap_or((PUBLIC, text));
    (schema, unquoted(name).map_or(Cow::Borrowed(name), Cow::Owned))
}

/// The name in double quotes; `None`: the text is none.
fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let is_one = !inner.is_empty() && !inner.replace("\"\"", "").contains('"');
    is_one.then(|| inner.replace("\"\"", "\""))
}

/// The shortest text that means a collection.
pub fn readable_name(schema: &str, name: &str) -> String {
    let plain = match schema {
        PUBLIC => name.to_string(),
        _ => format!("{schema}.{name}"),
    };
    if schema_and_name(&plain) == (schema, Cow::Borrowed(name)) {
        return plain;
    }
    format!("{schema}.\"{}\"", name.replace('"', "\"\""))
}

impl Readable {
    /// The name that reads it back.
    pub fn readable_name(&self) -> String {
        readable_name(&self.schema_name, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_dots_capitals_and_quotes() {
        for (text, schema, name) in [
            ("v", "public", "v"),
            ("public.v", "public", "v"),
            ("cenote_state.v_agg", "cenote_state", "v_agg"),
            ("a.b", "public", "a.b"),
            ("My View", "public", "My View"),
            ("\"My View\"", "public", "My View"),
            ("public.\"a.b\"", "public", "a.b"),
            ("\"cenote_state\".\"say \"\"x\"\"\"", "cenote_state", "say \"x\""),
            ("public.cenote_state.x", "public", "cenote_state.x"),
            ("\"", "public", "\""),
            ("\"a\"b\"", "public", "\"a\"b\""),
            ("publicx", "public", "publicx"),
        ] {
            assert_eq!(schema_and_name(text), (schema, Cow::Borrowed(name)), "{text}");
        }
    }

    #[test]
    fn every_name_is_read_back() {
        let names = [
            "v",
            "a.b",
            "A b",
            "\"q\"",
            "\"",
            "say \"x\"",
            "cenote_state.x",
            "public.x",
            "\"public\".x",
            "",
        ];
        for schema in SCHEMAS {
            for name in names {
                let text = readable_name(schema, name);
                assert_eq!(schema_and_name(&text), (schema, Cow::Borrowed(name)), "{text}");
            }
        }
        assert_eq!(readable_name("public", "a.b"), "a.b");
    }
}
