//! The `file` connector: a file, a glob or a folder, read once or followed; and files that a sink writes into a folder.
//!
//! # Rules kept here
//! 1. A partition is a file, named by its path as the option `path` leads to it. Positions are bytes of text
//!    (after decompression), records of Parquet.
//! 2. A file is the same file while its beginning, as far as it was read (4 KiB at most), is the same and it is
//!    not shorter than what was read. A file that was cut short, or replaced by another of the same name, is
//!    an error naming it and is not read again. A file of a glob or folder that was renamed goes on as itself.
//! 3. A file that is damaged is one bad row (line 0, or the line reached) and is done; others go on.
//!    With `on_error = 'fail'` the source stops instead.
//! 4. A bounded source reads every file to its end once. A followed one reads whole lines, and waits for the
//!    line feed of the last; it is woken by the operating system and never looks without being woken.
//!
//! # Not here
//! What a line or record means: `json`, `csv`, `parquet`. How rows are written: `encode`.

mod bounded;
mod follow;
mod identity;
mod input;
mod location;
mod output;
mod policy;
mod read;
mod settings;
mod sink;
mod team;
mod text_file;
mod watch;

#[cfg(test)]
mod tests;

pub use settings::OPTIONS;

use crate::encode::Encodings;
use cenote_engine::port::{Connector, OptionSpec, Sink, SinkRequest, Source, SourceOutput, SourceRequest, StopToken};
use cenote_statestore::{Error, ErrorKind, Result};
use location::Location;
use settings::Settings;
use std::sync::Arc;

/// Reads and writes files.
pub struct FileConnector {
    encodings: Arc<dyn Encodings>,
}

impl FileConnector {
    /// A connector that writes in the forms of `encodings`.
    pub fn new(encodings: Arc<dyn Encodings>) -> FileConnector {
        FileConnector { encodings }
    }
}

impl Connector for FileConnector {
    fn name(&self) -> &'static str {
        "file"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn source(&self, request: SourceRequest) -> Result<Box<dyn Source>> {
        let settings = Settings::new(&request)?;
        crate::rows::Rows::new(&request.schema, request.projection.as_deref())?;
        let location = Location::new(&settings.path, &request.paths)?;
        let source = FileSource {
            request,
            settings,
            location,
        };
        source.check_files()?;
        Ok(Box::new(source))
    }

    fn sink_options(&self) -> &'static [OptionSpec] {
        output::OPTIONS
    }

    fn sink(&self, request: SinkRequest) -> Result<Box<dyn Sink>> {
        Ok(Box::new(output::FileOutput::new(&request, &self.encodings)?))
    }
}

/// Files ready to be read.
struct FileSource {
    request: SourceRequest,
    settings: Settings,
    location: Location,
}

impl FileSource {
    /// Checks what is there now: something to read, inside the allowed folders.
    fn check_files(&self) -> Result<()> {
        let found = self.location.list()?;
        for path in &found {
            if !policy::admit(path, &self.request.paths)?.is_file() {
                return Err(policy::unreadable(path, "it is not a regular file"));
            }
            if !self.is_bounded() && found.len() == 1 && self.settings.is_compressed_by_name(path) {
                return Err(compressed(&path.to_string_lossy()));
            }
        }
        if found.is_empty() && self.is_bounded() && self.request.until.is_none() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "CONN-0006",
                format!("cannot read `{}`: no file is there", self.settings.path),
            )
            .sqlstate("58P01")
            .attempt("give the path of a file, a glob that matches files, or a folder with files in it"));
        }
        Ok(())
    }
}

impl Source for FileSource {
    fn run(self: Box<Self>, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<()> {
        match (&self.request.until, self.settings.follow) {
            (Some(until), _) => bounded::replay(&self, until, output, stop),
            (None, false) => bounded::read_once(&self, output, stop),
            (None, true) => follow::follow(&self, output, stop),
        }
    }

    fn is_bounded(&self) -> bool {
        !self.settings.follow || self.request.until.is_some()
    }
}

/// CONN-0009: a compressed file cannot be followed.
fn compressed(path: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "CONN-0009",
        format!("cannot follow file `{path}`: it is compressed"),
    )
    .attempt("read it with follow = 'false', or follow the file before it is compressed")
}

/// The partition that a file is: its path as text.
fn partition_name(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}
