//! The `print` connector: rows on standard output as they are committed, one JSON object a line.
//!
//! Standard output is no place that can be asked what it has, so a kill between the receipt of a transaction and its
//! printing loses those lines; nothing is printed twice.

use crate::encode::{Encoder, Encoding, Encodings};
use crate::options::check;
use crate::shape::{MODE, Shape};
use cenote_engine::port::{Connector, Cut, OptionSpec, Sink, SinkRequest};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result};
use std::io::Write;
use std::sync::Arc;

const OPTIONS: &[OptionSpec] = &[MODE];

/// Prints rows.
pub struct Print {
    encodings: Arc<dyn Encodings>,
}

impl Print {
    /// A connector that writes in the forms of `encodings`.
    pub fn new(encodings: Arc<dyn Encodings>) -> Print {
        Print { encodings }
    }
}

impl Connector for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn sink_options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn sink(&self, request: SinkRequest) -> Result<Box<dyn Sink>> {
        check(&request.name, OPTIONS, &request.options)?;
        let shape = Shape::new(&request)?;
        let encoder = self.encodings.encoder(Encoding::Ndjson, shape.schema())?;
        Ok(Box::new(Printer {
            shape,
            encoder,
            lines: Vec::new(),
            prepared: None,
            out: std::io::stdout(),
        }))
    }
}

/// Lines that wait to be committed.
struct Printer<W> {
    shape: Shape,
    encoder: Box<dyn Encoder>,
    lines: Vec<u8>,
    /// The token that all of the lines were prepared under, if they were.
    prepared: Option<String>,
    out: W,
}

impl<W: Write + Send> Sink for Printer<W> {
    fn recover(&mut self, token: Option<&str>) -> Result<()> {
        let printed = token.map_or(Ok(()), |token| self.commit(token));
        self.lines.clear();
        self.prepared = None;
        printed
    }

    fn write(&mut self, epoch: Epoch, changes: &Changes) -> Result<u64> {
        let rows = self.shape.rows(epoch, changes)?;
        let before = self.lines.len();
        self.encoder.batch(&rows, &mut self.lines)?;
        Ok((self.lines.len() - before) as u64)
    }

    fn prepare(&mut self, epoch: Epoch, _: Cut) -> Result<String> {
        let token = epoch.to_string();
        self.prepared = Some(token.clone());
        Ok(token)
    }

    fn commit(&mut self, token: &str) -> Result<()> {
        if self.prepared.as_deref() != Some(token) {
            return Ok(());
        }
        let printed = self.out.write_all(&self.lines).and_then(|()| self.out.flush());
        // Of lines that were printed in part nobody knows which: they are not printed again.
        self.lines.clear();
        self.prepared = None;
        printed.map_err(|error| {
            let message = format!("cannot print rows: {error}");
            Error::new(ErrorKind::Unavailable, "CONN-0020", message)
                .sqlstate("58030")
                .source(error)
        })
    }
}
