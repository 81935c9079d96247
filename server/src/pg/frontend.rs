//! What clients send: messages and how they decode.
//!
//! The message codec of the crate `pgwire` is not used: its decoders read a message's fields without asking whether
//! they are there, and panic on a short one.

use bytes::Bytes;
use cenote_statestore::{Error, ErrorKind};

/// Longest message of a kind that carries no text or values, as PostgreSQL has it.
const SMALL_BYTES_MAX: usize = 10_000;

/// What `Describe` and `Close` are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement,
    Portal,
}

/// A message of the client.
#[derive(Debug)]
pub(super) enum Message {
    Query(String),
    Parse { name: String, sql: String, types: Vec<u32> },
    Bind(Bind),
    Describe(Target, String),
    Execute { portal: String, rows_max: i32 },
    Close(Target, String),
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    FunctionCall,
    Password,
}

/// Values for a prepared statement.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) parameter_formats: Vec<i16>,
    /// `None` is NULL.
    pub(super) parameters: Vec<Option<Bytes>>,
    pub(super) result_formats: Vec<i16>,
}

/// The longest message of this kind, its length field included; `None`: there is no such kind.
pub(super) fn bytes_max(kind: u8, message_bytes_max: usize) -> Option<usize> {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => Some(message_bytes_max),
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => Some(SMALL_BYTES_MAX.min(message_bytes_max)),
        _ => None,
    }
}

/// Whether an error in a message of this kind holds until the next Sync.
pub(super) fn is_extended(kind: u8) -> bool {
    matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

/// A breach of the protocol, SQLSTATE 08P01.
pub(super) fn violation(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, "PG-0006", message).sqlstate("08P01")
}

/// Decodes the body of a message.
///
/// # Errors
/// `Invalid`: 08P01 when fields are missing, left over or out of range; 22021 for text that is not UTF-8.
pub(super) fn decode(kind: u8, body: Bytes) -> Result<Message, Error> {
    let mut fields = Fields(body);
    let message = match kind {
        b'Q' => Message::Query(fields.text()?),
        b'P' => Message::Parse {
            name: fields.text()?,
            sql: fields.text()?,
            types: fields.types()?,
        },
        b'B' => Message::Bind(fields.bind()?),
        b'D' => Message::Describe(fields.target()?, fields.text()?),
        b'E' => Message::Execute {
            portal: fields.text()?,
            rows_max: fields.i32()?,
        },
        b'C' => Message::Close(fields.target()?, fields.text()?),
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => return Ok(Message::Terminate),
        b'd' => return Ok(Message::CopyData(fields.0)),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(fields.text()?),
        b'F' => return Ok(Message::FunctionCall),
        _ => return Ok(Message::Password),
    };
    if fields.0.is_empty() {
        Ok(message)
    } else {
        Err(violation("invalid message format"))
    }
}

/// Fields of a body not read yet.
pub(super) struct Fields(pub(super) Bytes);

impl Fields {
    fn take(&mut self, count: usize) -> Result<Bytes, Error> {
        if count > self.0.len() {
            return Err(violation("insufficient data left in message"));
        }
        Ok(self.0.split_to(count))
    }

    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    fn i16(&mut self) -> Result<i16, Error> {
        let bytes = self.take(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Error> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text that a zero byte ends.
    pub(super) fn text(&mut self) -> Result<String, Error> {
        let end = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| violation("invalid string in message"))?;
        let text = self.take(end + 1)?;
        match std::str::from_utf8(&text[..end]) {
            Ok(text) => Ok(text.to_string()),
            Err(_) => Err(not_utf8()),
        }
    }

    fn target(&mut self) -> Result<Target, Error> {
        match self.u8()? {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            other => Err(violation(format!(
                "invalid subtype {other} in DESCRIBE or CLOSE message"
            ))),
        }
    }

    /// A count of 16 bits, unsigned. Nothing is reserved for it: only what is there is read.
    fn count(&mut self) -> Result<usize, Error> {
        Ok(self.i16()? as u16 as usize)
    }

    fn types(&mut self) -> Result<Vec<u32>, Error> {
        (0..self.count()?).map(|_| Ok(self.i32()? as u32)).collect()
    }

    fn formats(&mut self) -> Result<Vec<i16>, Error> {
        (0..self.count()?).map(|_| self.i16()).collect()
    }

    fn value(&mut self) -> Result<Option<Bytes>, Error> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| violation("invalid length of a parameter"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn bind(&mut self) -> Result<Bind, Error> {
        Ok(Bind {
            portal: self.text()?,
            statement: self.text()?,
            parameter_formats: self.formats()?,
            parameters: (0..self.count()?).map(|_| self.value()).collect::<Result<_, _>>()?,
            result_formats: self.formats()?,
        })
    }
}

/// Text that is not UTF-8, SQLSTATE 22021.
pub(super) fn not_utf8() -> Error {
    let message = "invalid byte sequence for encoding \"UTF8\"";
    Error::new(ErrorKind::Invalid, "VALUE-0010", message).sqlstate("22021")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff\0\x01\0\0";

    #[test]
    fn a_bind_message_decodes_field_by_field() {
        let Ok(Message::Bind(bind)) = decode(b'B', Bytes::from_static(BIND)) else {
            panic!("it does not decode");
        };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
        assert_eq!((bind.parameter_formats, bind.result_formats), (vec![1], vec![0]));
        assert_eq!(bind.parameters, [Some(Bytes::from_static(b"abc")), None]);
    }

    #[test]
    fn every_cut_and_every_changed_byte_of_a_message_is_an_error_or_a_message() {
        let bodies: [(u8, &[u8]); 6] = [
            (b'B', BIND),
            (b'P', b"n\0select 1\0\0\x01\0\0\0\x17"),
            (b'D', b"Sname\0"),
            (b'E', b"p\0\0\0\0\x05"),
            (b'C', b"Pname\0"),
            (b'Q', b"select 1\0"),
        ];
        for (kind, body) in bodies {
            assert!(decode(kind, Bytes::from_static(body)).is_ok());
            for length in 0..body.len() {
                let error = decode(kind, Bytes::copy_from_slice(&body[..length])).unwrap_err();
                assert_eq!(error.state(), "08P01", "{} cut to {length}", kind as char);
            }
            for index in 0..body.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = body.to_vec();
                    changed[index] = value;
                    let _ = decode(kind, Bytes::from(changed));
                }
            }
        }
    }

    #[test]
    fn counts_reserve_no_memory() {
        let error = decode(b'P', Bytes::from_static(b"\0\0\xff\xff")).unwrap_err();
        assert_eq!(error.message(), "insufficient data left in message");
    }
}
