//! Why one row could not be read.
//!
//! A [`Refusal`] is what a value parser says: it knows neither column nor type. A [`Fault`] is a refusal that
//! names its column, ready for a [`BadRow`](cenote_engine::port::BadRow) or an error of a request body.

/// The class of a fault: decides the SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The text is not what the format or the type asks for.
    Syntax,
    /// The value does not fit the type.
    Range,
    /// No value where the column is NOT NULL.
    Null,
    /// The text is not a date or time.
    Time,
    /// A moment is beyond the type's range.
    Moment,
    /// A field of an interval is beyond its range.
    Span,
    /// The bytes are not UTF-8, or hold a character that TEXT cannot.
    Encoding,
    /// The field is not a column.
    Unknown,
    /// The line is longer than allowed.
    Length,
}

impl FaultKind {
    /// The SQLSTATE of PostgreSQL for this class.
    pub(crate) fn sqlstate(self) -> &'static str {
        match self {
            FaultKind::Syntax => "22P02",
            FaultKind::Range => "22003",
            FaultKind::Null => "23502",
            FaultKind::Time => "22007",
            FaultKind::Moment => "22008",
            FaultKind::Span => "22015",
            FaultKind::Encoding => "22021",
            FaultKind::Unknown => "42703",
            FaultKind::Length => "54000",
        }
    }
}

/// Why a row could not be read, naming the field where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Its class.
    pub(crate) kind: FaultKind,
    /// A sentence part such as ``field `ts`: an object cannot be read as TIMESTAMP``.
    pub(crate) reason: String,
}

impl Fault {
    /// Boxed at once: faults are rare, and a small `Err` keeps the reading loop in registers.
    pub(crate) fn new(kind: FaultKind, reason: impl Into<String>) -> Box<Fault> {
        Box::new(Fault {
            kind,
            reason: reason.into(),
        })
    }
}

/// What reading a row or a part of it gives.
pub(crate) type Parsed<T> = Result<T, Box<Fault>>;

/// Why a value parser refuses a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not of the type's syntax.
    Syntax,
    /// Beyond the type's range.
    Range,
    /// A moment beyond the type's range.
    Moment,
    /// An interval beyond the type's range.
    Span,
    /// A fraction where the type has only whole numbers.
    Fraction,
    /// Not a date or time.
    Time,
    /// A time of day where the type is a date.
    TimeOfDay,
    /// The character U+0000.
    Nul,
}

impl Refusal {
    fn kind(self) -> FaultKind {
        match self {
            Refusal::Syntax | Refusal::Fraction => FaultKind::Syntax,
            Refusal::Range => FaultKind::Range,
            Refusal::Moment => FaultKind::Moment,
            Refusal::Span => FaultKind::Span,
            Refusal::Time | Refusal::TimeOfDay => FaultKind::Time,
            Refusal::Nul => FaultKind::Encoding,
        }
    }

    /// The fault of reading `text` into column `name` of SQL type `sql_type`.
    pub(crate) fn fault(self, name: &str, sql_type: &str, text: &[u8]) -> Box<Fault> {
        let shown = excerpt(text, 64);
        let reason = match self {
            Refusal::Syntax | Refusal::Time => format!("field `{name}`: \"{shown}\" is not a valid {sql_type}"),
            Refusal::Range | Refusal::Moment | Refusal::Span => {
                format!("field `{name}`: {shown} is out of range for {sql_type}")
            }
            Refusal::Fraction => format!("field `{name}`: {shown} has a fraction, which {sql_type} cannot hold"),
            Refusal::TimeOfDay => {
                format!("field `{name}`: \"{shown}\" has a time of day, which {sql_type} cannot hold")
            }
            Refusal::Nul => format!("field `{name}`: the character U+0000 cannot be stored in {sql_type}"),
        };
        Fault::new(self.kind(), reason)
    }
}

/// `bytes` as text of at most `bytes_max` bytes, cut at a character boundary; invalid UTF-8 shows as U+FFFD.
pub(crate) fn excerpt(bytes: &[u8], bytes_max: usize) -> String {
    let head = &bytes[..bytes.len().min(bytes_max + 4)];
    let mut text = String::from_utf8_lossy(head).into_owned();
    if text.len() > bytes_max {
        let cut = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn excerpt_cuts_at_a_character_boundary() {
        assert_eq!(excerpt("aé".as_bytes(), 2), "a");
        assert_eq!(excerpt("aé".as_bytes(), 3), "aé");
        assert_eq!(excerpt("日本語".as_bytes(), 7), "日本");
        assert_eq!(excerpt("日本語".repeat(9).as_bytes(), 7), "日本");
        assert!(excerpt(&[b'a', 0xff, b'b'], 10).contains('\u{fffd}'));
        assert!(excerpt(&[0xff; 4000], 1024).len() <= 1024);
    }
}
