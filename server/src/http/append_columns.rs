//! Which columns a body of rows names.
//!
//! A column that no row of a body names takes its default, as one that is left out of INSERT's column list does.
//! In a body that names it anywhere, a row without it has NULL there.

use arrow::datatypes::{Schema, SchemaRef};
use cenote_connectors::decode::{BodyFormat, stream_columns};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;

/// The columns of `schema` that the body names. All of them if the body cannot be read or names others: decoding
/// it says what is wrong.
pub fn named_columns(schema: &SchemaRef, format: BodyFormat, body: &[u8]) -> SchemaRef {
    let mut names = Names {
        schema,
        seen: vec![false; schema.fields().len()],
        left: schema.fields().len(),
    };
    let read = match format {
        BodyFormat::Ndjson => names.read_lines(body),
        BodyFormat::JsonArray => names.read_array(body),
        BodyFormat::Csv => names.read_header(body),
        BodyFormat::ArrowStream => names.read_schema(body),
    };
    if read.is_none() || names.left == 0 || names.left == names.seen.len() {
        return schema.clone();
    }
    let fields = schema
        .fields()
        .iter()
        .zip(&names.seen)
        .filter(|(_, seen)| **seen)
        .map(|(field, _)| field.clone());
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

struct Names<'a> {
    schema: &'a SchemaRef,
    seen: Vec<bool>,
    left: usize,
}

impl Names<'_> {
    /// Notes a name; `None` if it is no column's.
    fn note(&mut self, name: &str) -> Option<()> {
        let index = self.schema.index_of(name).ok()?;
        if !std::mem::replace(&mut self.seen[index], true) {
            self.left -= 1;
        }
        Some(())
    }

    fn read_lines(&mut self, body: &[u8]) -> Option<()> {
        for line in body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
        {
            if self.left == 0 {
                break;
            }
            let mut json = serde_json::Deserializer::from_slice(line);
            Object(self).deserialize(&mut json).ok()?;
        }
        Some(())
    }

    fn read_array(&mut self, body: &[u8]) -> Option<()> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = json.deserialize_seq(Objects(self));
        (read.is_ok() || self.left == 0).then_some(())
    }

    fn read_header(&mut self, body: &[u8]) -> Option<()> {
        let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let header = text.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
        let names = super::scan::split_names(std::str::from_utf8(header).ok()?);
        names.iter().try_for_each(|name| self.note(name))
    }

    fn read_schema(&mut self, body: &[u8]) -> Option<()> {
        let names = stream_columns(body)?;
        names.iter().try_for_each(|name| self.note(name))
    }
}

/// Reads one object for its names.
struct Object<'a, 'n>(&'a mut Names<'n>);

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key_seed(Text)? {
            self.0.note(&name).ok_or_else(|| A::Error::custom("no column"))?;
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A name, borrowed where it has no escapes.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = std::borrow::Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        #[derive(serde::Deserialize)]
        struct Borrowed<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
        Borrowed::deserialize(source).map(|text| text.0)
    }
}

/// Reads an array of objects until every column has been named.
struct Objects<'a, 'n>(&'a mut Names<'n>);

impl<'de> Visitor<'de> for Objects<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while self.0.left > 0 && items.next_element_seed(Object(self.0))?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    fn named(format: BodyFormat, body: &[u8]) -> Vec<String> {
        let fields = ["id", "owner", "opened"].map(|name| Field::new(name, DataType::Utf8, true));
        let schema = named_columns(&Arc::new(Schema::new(fields.to_vec())), format, body);
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[test]
    fn columns_that_no_row_names_are_left_out() {
        assert_eq!(
            named(BodyFormat::Ndjson, b"{\"id\":1}\n\n{\"owner\":{\"id\":2},\"id\":2}\n"),
            ["id", "owner"]
        );
        assert_eq!(
            named(BodyFormat::JsonArray, b"[{\"id\":1},{\"\\u006fpened\":[1,2]}]"),
            ["id", "opened"]
        );
        assert_eq!(named(BodyFormat::Csv, b"owner,\"id\"\r\nann,1\r\n"), ["id", "owner"]);
    }

    #[test]
    fn columns_of_an_arrow_stream_are_its_schema() {
        let schema = Schema::new(vec![Field::new("opened", DataType::Int64, true)]);
        let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
        writer.finish().unwrap();
        assert_eq!(named(BodyFormat::ArrowStream, writer.get_ref()), ["opened"]);
    }

    #[test]
    fn bodies_that_cannot_be_read_are_left_to_the_decoder() {
        for body in [&b"{\"id\":1}\n{\"ownr\":2}"[..], b"{\"id\":", b"[1]"] {
            assert_eq!(named(BodyFormat::Ndjson, body), ["id", "owner", "opened"]);
        }
        assert_eq!(named(BodyFormat::JsonArray, b"{\"id\":1}"), ["id", "owner", "opened"]);
    }
}
