//! `concat`, `concat_ws` and `format`: texts made of several, each of bounded length.
//!
//! # Rules kept here
//! A text is no longer than PostgreSQL's can be, and those of a batch are no longer than Arrow's can be together; what is
//! longer is an error (54000). A view then tries fewer rows at once.

use super::overloads::failed;
use super::quoting::format_texts;
use super::strings::shown;
use arrow::array::{Array, ArrayRef, StringArray, StringBuilder};
use datafusion::error::Result;
use std::fmt::Write;
use std::sync::Arc;

/// Bytes of the longest text.
pub(super) const TEXT_BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of the texts of a batch.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// The error of a text that would be too long.
pub(super) fn too_long() -> datafusion::error::DataFusionError {
    let message = format!("string buffer exceeds maximum allowed length ({TEXT_BYTES_MAX} bytes)");
    failed("54000", message)
}

/// Texts of a result, each made of pieces.
#[derive(Default)]
struct Made {
    texts: StringBuilder,
    bytes: usize,
}

impl Made {
    fn add<'a>(&mut self, pieces: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        let bytes = pieces.clone().map(str::len).fold(0usize, usize::saturating_add);
        if bytes > TEXT_BYTES_MAX {
            return Err(too_long());
        }
        self.bytes += bytes;
        if self.bytes > BATCH_BYTES_MAX {
            let message = format!("the texts of a batch of rows exceed {BATCH_BYTES_MAX} bytes together");
            return Err(failed("54000", message));
        }
        for piece in pieces {
            self.texts.write_str(piece)?;
        }
        self.texts.append_value("");
        Ok(())
    }

    fn add_null(&mut self) {
        self.texts.append_null();
    }

    fn array(mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}

fn all_shown(a: &[ArrayRef]) -> Result<Vec<StringArray>> {
    a.iter().map(shown).collect()
}

/// The values of a row that are not NULL.
fn values(parts: &[StringArray], row: usize) -> impl Iterator<Item = &str> + Clone {
    parts
        .iter()
        .filter(move |part| part.is_valid(row))
        .map(move |part| part.value(row))
}

pub(super) fn concat(a: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = all_shown(a)?;
    let mut made = Made::default();
    for row in 0..a.first().map_or(0, |array| array.len()) {
        made.add(values(&parts, row))?;
    }
    Ok(made.array())
}

pub(super) fn concat_ws(a: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = all_shown(a)?;
    let mut made = Made::default();
    for row in 0..a[0].len() {
        if parts[0].is_null(row) {
            made.add_null();
            continue;
        }
        let separator = parts[0].value(row);
        let with = |(index, value)| [if index == 0 { "" } else { separator }, value];
        made.add(values(&parts[1..], row).enumerate().flat_map(with))?;
    }
    Ok(made.array())
}

pub(super) fn formatted(a: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = all_shown(a)?;
    let mut made = Made::default();
    for row in 0..a[0].len() {
        let value = |part: usize| parts.get(part).map(|part| part.is_valid(row).then(|| part.value(row)));
        match value(0).flatten() {
            Some(format) => made.add(std::iter::once(format_texts(format, value)?.as_str()))?,
            None => made.add_null(),
        }
    }
    Ok(made.array())
}
