//! What the server sends: messages and how they encode.

use super::rows::ColumnFormat;
use cenote_query::TransactionStatus;
use cenote_query::pgtype::ColumnType;
use cenote_statestore::Error;

/// Messages encoded one after the other.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    /// Rows were added since the last [`Outgoing::clear`].
    pub(super) has_rows: bool,
}

impl Outgoing {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the buffer, giving memory beyond `kept` back.
    pub(super) fn clear(&mut self, kept: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept);
        self.has_rows = false;
    }

    /// Adds a message whose body `write` appends.
    ///
    /// # Errors
    /// Those of `write`; nothing of the message is kept then.
    fn try_message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), Error> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
        let written = write(&mut self.bytes).and_then(|()| {
            let length = i32::try_from(self.bytes.len() - start - 1);
            length.map_err(|_| {
                let message = "cannot send a row: it is longer than a message can be";
                Error::new(cenote_statestore::ErrorKind::Invalid, "PG-0007", message).sqlstate("54000")
            })
        });
        match written {
            Ok(length) => {
                self.bytes[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(start);
                Err(error)
            }
        }
    }

    fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        // Without an error of `write`, only a message of 2 GB fails: it is left out, and none of these is of that kind.
        let _ = self.try_message(kind, |body| {
            write(body);
            Ok(())
        });
    }

    fn text(body: &mut Vec<u8>, text: &str) {
        body.extend(text.bytes().filter(|byte| *byte != 0));
        body.push(0);
    }

    /// Answers a request for encryption, which is no message but one byte.
    pub(super) fn refuse_encryption(&mut self) {
        self.bytes.push(b'N');
    }

    pub(super) fn authentication_ok(&mut self) {
        self.message(b'R', |body| body.extend_from_slice(&0i32.to_be_bytes()));
    }

    /// Answers a client that asked for a newer protocol or for options nobody knows.
    pub(super) fn negotiate_version(&mut self, unknown_options: &[String]) {
        self.message(b'v', |body| {
            body.extend_from_slice(&0i32.to_be_bytes());
            body.extend_from_slice(&(unknown_options.len() as i32).to_be_bytes());
            unknown_options.iter().for_each(|option| Outgoing::text(body, option));
        });
    }

    pub(super) fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            Outgoing::text(body, name);
            Outgoing::text(body, value);
        });
    }

    pub(super) fn backend_key(&mut self, process: i32, secret: i32) {
        self.message(b'K', |body| {
            body.extend_from_slice(&process.to_be_bytes());
            body.extend_from_slice(&secret.to_be_bytes());
        });
    }

    pub(super) fn ready(&mut self, status: TransactionStatus) {
        let letter = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.message(b'Z', |body| body.push(letter));
    }

    pub(super) fn parse_complete(&mut self) {
        self.message(b'1', |_| {});
    }

    pub(super) fn bind_complete(&mut self) {
        self.message(b'2', |_| {});
    }

    pub(super) fn close_complete(&mut self) {
        self.message(b'3', |_| {});
    }

    pub(super) fn no_data(&mut self) {
        self.message(b'n', |_| {});
    }

    pub(super) fn portal_suspended(&mut self) {
        self.message(b's', |_| {});
    }

    pub(super) fn empty_query(&mut self) {
        self.message(b'I', |_| {});
    }

    pub(super) fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |body| Outgoing::text(body, tag));
    }

    pub(super) fn copy_in(&mut self, columns: usize) {
        self.message(b'G', |body| {
            body.push(0);
            body.extend_from_slice(&(columns as u16).to_be_bytes());
            body.resize(body.len() + columns * 2, 0);
        });
    }

    pub(super) fn parameter_description(&mut self, types: impl ExactSizeIterator<Item = u32>) {
        self.message(b't', |body| {
            body.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
        });
    }

    /// Adds a row description: name, type and format of each column.
    pub(super) fn row_description<'a>(
        &mut self,
        columns: impl ExactSizeIterator<Item = (&'a str, ColumnType, ColumnFormat)>,
    ) {
        self.message(b'T', |body| {
            body.extend_from_slice(&(columns.len() as u16).to_be_bytes());
            for (name, column, format) in columns {
                Outgoing::text(body, name);
                // Neither a table's OID nor a column's number: results are not tied to tables.
                body.extend_from_slice(&[0; 6]);
                body.extend_from_slice(&column.pg.oid.to_be_bytes());
                body.extend_from_slice(&column.pg.size.to_be_bytes());
                body.extend_from_slice(&column.typmod.to_be_bytes());
                body.extend_from_slice(&(format as i16).to_be_bytes());
            }
        });
    }

    /// Adds a row whose columns `write` appends, each with its length before it.
    pub(super) fn row(
        &mut self,
        columns: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.has_rows = true;
        self.try_message(b'D', |body| {
            body.extend_from_slice(&(columns as u16).to_be_bytes());
            write(body)
        })
    }

    pub(super) fn notice(&mut self, message: &str) {
        self.message(b'N', |body| {
            for (field, text) in [(b'S', "NOTICE"), (b'V', "NOTICE"), (b'C', "00000"), (b'M', message)] {
                body.push(field);
                Outgoing::text(body, text);
            }
            body.push(0);
        });
    }

    /// Adds an error.
    ///
    /// # Arguments
    /// - `severity`: `ERROR`, or `FATAL` when the connection ends with it.
    /// - `offset`: characters before the statement in the text that the client sent, added to its position.
    pub(super) fn error(&mut self, severity: &str, error: &Error, offset: usize) {
        let position = error.sql_position().map(|position| (position + offset).to_string());
        let detail = error.detail();
        let (table, constraint) = error.constraint().unzip();
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(error.state())),
            (b'M', Some(error.message())),
            (b'D', detail.as_deref()),
            (b'H', error.hint()),
            (b'P', position.as_deref()),
            (b's', table.and(Some("public"))),
            (b't', table),
            (b'n', constraint),
            // The stable code stands where PostgreSQL names a routine of its source.
            (b'R', Some(error.code())),
        ];
        self.message(b'E', |body| {
            for (field, text) in fields {
                if let Some(text) = text {
                    body.push(field);
                    Outgoing::text(body, text);
                }
            }
            body.push(0);
        });
    }
}
