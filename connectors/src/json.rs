//! Rows from JSON objects: one a line (NDJSON), or the elements of an array.
//!
//! One pass goes over the bytes and appends straight to the columns. Lines of one file tend to have the same
//! fields in the same order, so the bytes between two values (`,"amount":`) are remembered with the column
//! that they lead to; where the next line has the same bytes there, its field names are not read at all.
//! Anything unexpected falls back to reading the name, for that field alone.
//!
//! # Rules kept here
//! 1. The whole line is checked to be JSON (RFC 8259, nested at most [`cursor::DEPTH_MAX`] deep), used or not.
//! 2. A field that is missing or `null` is NULL. Of a field given twice the last value counts.
//! 3. A name that differs from a column's in case only means that column, unless the row has the exact name too.
//! 4. A scalar is taken for any column whose type has a value of that text: `"12"` is a BIGINT, `12` a TEXT.
//!    A number is a TIMESTAMP as milliseconds since 1970.
//! 5. An array is taken for a column of arrays, element by element; so is PostgreSQL's literal in a string.
//! 6. An object is taken for a STRUCT column by rules 2 and 3; a name that is no field's counts as one that is no
//!    column's. So is PostgreSQL's literal in a string.
//! 7. JSON and JSONB columns take any value as it is written; `null` is NULL there too.
//!
//! # Not here
//! Texts to values is `value`; cutting a file in lines is `text`.

mod cursor;

#[cfg(test)]
mod tests;

pub(crate) use cursor::Cursor;

use crate::column::{Column, Values};
use crate::elements::Elements;
use crate::fault::{Fault, FaultKind, Parsed, excerpt};
use crate::members::{self, Members};
use crate::rows::{Rows, column_of, nearest};

/// Gaps remembered at most: rows with more fields read the names of the rest.
const GAPS_MAX: usize = 1024;
/// The longest gap remembered, in bytes.
const GAP_BYTES_MAX: usize = 128;

/// What a field name leads to.
#[derive(Clone, Copy)]
enum Target {
    /// A column, by its exact name or by a name of other case.
    Column { index: usize, exact: bool },
    /// No column.
    Unused,
}

/// The bytes between two values (or before the first), and where they lead.
struct Gap {
    text: Vec<u8>,
    /// The first 16 bytes of `text`, and which of them count.
    head: u128,
    mask: u128,
    target: Target,
}

impl Gap {
    fn new(text: &[u8], target: Target) -> Gap {
        let mut head = [0; 16];
        let len = text.len().min(16);
        head[..len].copy_from_slice(&text[..len]);
        let mask = if len == 16 { u128::MAX } else { (1u128 << (len * 8)) - 1 };
        Gap {
            text: text.to_vec(),
            head: u128::from_le_bytes(head),
            mask,
            target,
        }
    }

    /// Whether `bytes` go on with this gap.
    #[inline(always)]
    fn leads(&self, bytes: &[u8]) -> bool {
        match bytes.first_chunk::<16>() {
            Some(chunk) => {
                (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0
                    && (self.text.len() <= 16 || bytes.starts_with(&self.text))
            }
            None => bytes.starts_with(&self.text),
        }
    }
}

/// Reads rows from JSON objects.
pub(crate) struct JsonRows {
    gaps: Vec<Gap>,
    /// Where texts with escapes are put together.
    scratch: Vec<u8>,
    /// Whether a field that is no column is a fault.
    strict: bool,
}

impl JsonRows {
    /// A reader; `strict`: a field that is no column is a fault instead of ignored.
    pub(crate) fn new(strict: bool) -> JsonRows {
        JsonRows {
            gaps: Vec::new(),
            scratch: Vec::new(),
            strict,
        }
    }

    /// A reader by the same rules.
    pub(crate) fn another(&self) -> JsonRows {
        JsonRows::new(self.strict)
    }

    /// Reads one object into a new row and moves the cursor behind it. After a fault the rows are as before.
    #[inline]
    pub(crate) fn object(&mut self, rows: &mut Rows, cursor: &mut Cursor<'_>) -> Parsed<()> {
        rows.open();
        let outcome = self.fields(rows, cursor).and_then(|()| rows.close());
        if outcome.is_err() {
            rows.back();
        }
        outcome
    }

    #[inline(always)]
    fn fields(&mut self, rows: &mut Rows, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let mut field = 0;
        loop {
            let target = match self.gaps.get(field) {
                Some(gap) if gap.leads(cursor.rest()) => {
                    cursor.at += gap.text.len();
                    gap.target
                }
                _ => match self.gap(rows, cursor, field)? {
                    Some(target) => target,
                    None => return Ok(()),
                },
            };
            self.value(rows, cursor, target)?;
            field += 1;
            if cursor.peek() == b'}' {
                cursor.at += 1;
                return Ok(());
            }
        }
    }

    /// Reads what stands before the value of the `field`th field, its name included; `None` at the end of the object.
    #[cold]
    fn gap(&mut self, rows: &Rows, cursor: &mut Cursor<'_>, field: usize) -> Parsed<Option<Target>> {
        let start = cursor.at;
        if field == 0 && !cursor.take(b'{') {
            return Err(cursor.fault("expected an object"));
        }
        cursor.blanks();
        if cursor.take(b'}') {
            return Ok(None);
        }
        if field > 0 {
            if !cursor.take(b',') {
                return Err(cursor.fault("expected `,` or `}`"));
            }
            cursor.blanks();
        }
        let target = self.name(rows, cursor)?;
        cursor.blanks();
        if !cursor.take(b':') {
            return Err(cursor.fault("expected `:`"));
        }
        cursor.blanks();
        self.learn(field, &cursor.bytes[start..cursor.at], target);
        Ok(Some(target))
    }

    fn name(&mut self, rows: &Rows, cursor: &mut Cursor<'_>) -> Parsed<Target> {
        if !cursor.take(b'"') {
            return Err(cursor.fault("expected a field name"));
        }
        let name = match cursor.string(&mut self.scratch)? {
            Some(plain) => plain,
            None => &self.scratch[..],
        };
        match column_of(&rows.columns, name) {
            Some((index, exact)) => Ok(Target::Column { index, exact }),
            None if self.strict => Err(unknown(rows, name)),
            None => Ok(Target::Unused),
        }
    }

    fn learn(&mut self, field: usize, text: &[u8], target: Target) {
        if text.len() > GAP_BYTES_MAX || field >= GAPS_MAX || field > self.gaps.len() {
            return;
        }
        let gap = Gap::new(text, target);
        match self.gaps.get_mut(field) {
            Some(known) => *known = gap,
            None => self.gaps.push(gap),
        }
    }

    #[inline(always)]
    fn value(&mut self, rows: &mut Rows, cursor: &mut Cursor<'_>, target: Target) -> Parsed<()> {
        let Target::Column { index, exact } = target else {
            return Self::unused(cursor);
        };
        let Some((column, row)) = rows.column(index, exact) else {
            return Self::unused(cursor);
        };
        if let Values::Int64(values) = &mut column.values
            && let Some(number) = cursor.short_integer()
        {
            values.push(number);
            return Ok(());
        }
        self.scalar(column, row, cursor)
    }

    /// Reads an array into a column of arrays.
    fn elements(&mut self, column: &mut Column, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let Some(elements) = column.elements() else {
            return Self::unused(cursor);
        };
        let read = self.try_elements(elements, cursor);
        match read {
            Ok(()) => elements.end_last(),
            Err(_) => elements.back(),
        }
        read
    }

    fn try_elements(&mut self, elements: &mut Elements, cursor: &mut Cursor<'_>) -> Parsed<()> {
        cursor.at += 1;
        cursor.blanks();
        let mut is_open = !cursor.take(b']');
        while is_open {
            elements.push(|column, row| self.scalar(column, row, cursor))?;
            cursor.blanks();
            is_open = cursor.take(b',');
            if !is_open && !cursor.take(b']') {
                return Err(cursor.fault("expected `,` or `]`"));
            }
        }
        Ok(())
    }

    /// Reads an object into a column of structs.
    fn members(&mut self, column: &mut Column, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let name = column.name().to_string();
        let Some(members) = column.members() else {
            return Self::unused(cursor);
        };
        let read = self
            .try_members(&name, members, cursor)
            .and_then(|()| members.end_last());
        if read.is_err() {
            members.back();
        }
        read
    }

    fn try_members(&mut self, column: &str, members: &mut Members, cursor: &mut Cursor<'_>) -> Parsed<()> {
        cursor.at += 1;
        cursor.blanks();
        let mut is_open = !cursor.take(b'}');
        while is_open {
            cursor.blanks();
            let place = self.member_name(column, members, cursor)?;
            cursor.blanks();
            if !cursor.take(b':') {
                return Err(cursor.fault("expected `:`"));
            }
            match place.and_then(|(index, exact)| members.member(index, exact)) {
                Some((column, row)) => self.scalar(column, row, cursor)?,
                None => Self::unused(cursor)?,
            }
            cursor.blanks();
            is_open = cursor.take(b',');
            if !is_open && !cursor.take(b'}') {
                return Err(cursor.fault("expected `,` or `}`"));
            }
        }
        Ok(())
    }

    /// Reads the name of a field of a struct; `None`: there is no such field.
    fn member_name(
        &mut self,
        column: &str,
        members: &Members,
        cursor: &mut Cursor<'_>,
    ) -> Parsed<Option<(usize, bool)>> {
        if !cursor.take(b'"') {
            return Err(cursor.fault("expected a field name"));
        }
        let name = match cursor.string(&mut self.scratch)? {
            Some(plain) => plain,
            None => &self.scratch[..],
        };
        match members.position(name) {
            None if self.strict => Err(members::unknown(column, &excerpt(name, 64), members.names())),
            place => Ok(place),
        }
    }

    fn unused(cursor: &mut Cursor<'_>) -> Parsed<()> {
        cursor.blanks();
        cursor.skip_value(1)
    }

    fn scalar(&mut self, column: &mut Column, row: usize, cursor: &mut Cursor<'_>) -> Parsed<()> {
        // A gap that is known can be followed by more blanks than it had.
        cursor.blanks();
        if column.is_json() && cursor.peek() != b'n' {
            let start = cursor.at;
            cursor.skip_value(1)?;
            return column.push_text(&cursor.bytes[start..cursor.at]);
        }
        match cursor.peek() {
            b'"' => {
                cursor.at += 1;
                match cursor.string(&mut self.scratch)? {
                    Some(text) => column.push_text(text),
                    None => column.push_text(&self.scratch),
                }
            }
            b'-' | b'0'..=b'9' => column.push_number(cursor.number()?),
            b't' => cursor.word("true").and_then(|()| column.push_boolean(true)),
            b'f' => cursor.word("false").and_then(|()| column.push_boolean(false)),
            b'n' => cursor.word("null").and_then(|()| column.push_null(row)),
            b'{' if column.members().is_some() => self.members(column, cursor),
            b'{' => cursor.skip_value(1).and(Err(column.misfit("an object"))),
            b'[' if column.elements().is_some() => self.elements(column, cursor),
            b'[' => cursor.skip_value(1).and(Err(column.misfit("an array"))),
            _ => Err(cursor.fault("expected a value")),
        }
    }
}

fn unknown(rows: &Rows, name: &[u8]) -> Box<Fault> {
    let name = excerpt(name, 64);
    let hint = match nearest(&name, rows.columns.iter().map(Column::name)) {
        Some(near) => format!("; the nearest column is `{near}`"),
        None => String::new(),
    };
    Fault::new(
        FaultKind::Unknown,
        format!("field `{name}`: there is no such column{hint}"),
    )
}
