//! Files that a sink writes into a folder.
//!
//! # Rules kept here
//! 1. **Whole or not there.** A file is staged under a name that starts with a dot, which every reader of a folder ignores,
//!    and gets its own name by one rename when its transaction is committed. It is never changed after that.
//! 2. **Whole epochs.** An epoch is in one file. A file is full at the end of the epoch with which it reaches one of the
//!    limits `roll_epochs`, `roll_rows`, `roll_bytes`; so where files end is a function of the changes, and a kill moves nothing.
//!    Only `roll_interval_ms`, which is off unless it is given, goes by the clock.
//! 3. **Numbers go on.** Files are `<sink>-<number>.<format>`; numbers ascend with epochs and are never given twice.
//! 4. A file that is not full yet is durable with each transaction and shows later: its token tells how long it was, and what
//!    is behind that after a kill is cut off.
//! 5. Text is added to a file as it comes. Parquet cannot be, so its rows wait in a spool of Arrow batches beside it.
//!
//! # Not here
//! How rows look ([`crate::encode`]); what `mode` means ([`crate::shape`]).

mod folder;
mod open;
mod settings;
mod token;

#[cfg(test)]
mod tests;

pub(super) use settings::OPTIONS;

use crate::encode::Encodings;
use crate::shape::Shape;
use cenote_engine::port::{Cut, Sink, SinkRequest};
use cenote_statestore::{Changes, Epoch, Result};
use folder::Folder;
use open::OpenFile;
use settings::Settings;
use std::sync::Arc;
use std::time::Instant;
use token::{Token, Whole};

/// Writes files.
pub(super) struct FileOutput {
    shape: Shape,
    settings: Settings,
    encodings: Arc<dyn Encodings>,
    folder: Folder,
    /// Files that are staged whole and not committed.
    whole: Vec<Whole>,
    open: Option<OpenFile>,
    /// The number of the next file.
    next: u64,
}

impl FileOutput {
    /// Checks options, columns and the folder; nothing is written.
    ///
    /// # Errors
    /// `Invalid`: an option, or the folder. `Unsupported`: a type that the format cannot hold.
    pub(super) fn new(request: &SinkRequest, encodings: &Arc<dyn Encodings>) -> Result<FileOutput> {
        let settings = Settings::new(request)?;
        let shape = Shape::new(request)?;
        encodings.encoder(settings.encoding, shape.schema())?;
        let folder = Folder::new(&settings.path, request, settings.encoding)?;
        Ok(FileOutput {
            shape,
            settings,
            encodings: encodings.clone(),
            folder,
            whole: Vec::new(),
            open: None,
            next: 1,
        })
    }

    /// The file that rows are added to; a new one if there is none.
    fn open_file(&mut self) -> Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let open = OpenFile::create(&self.folder, self.next, &*self.encodings, self.shape.schema())?;
                self.next += 1;
                open
            }
        };
        Ok(self.open.insert(open))
    }

    /// Makes the open file a whole one, if there is one.
    fn close_open(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            self.whole
                .push(open.finish(&self.folder, &*self.encodings, self.shape.schema())?);
        }
        Ok(())
    }
}

impl Sink for FileOutput {
    fn recover(&mut self, token: Option<&str>) -> Result<()> {
        (self.open, self.whole) = (None, Vec::new());
        self.folder.make()?;
        let found = self.folder.list()?;
        let token = match token {
            Some(token) => Token::read(token)?,
            None => {
                self.folder.check_unused(&found)?;
                Token::default()
            }
        };
        for whole in &token.whole {
            self.folder.publish(whole)?;
        }
        let open = token.open.as_ref().map(|open| open.number);
        for staged in found.staged.iter().filter(|staged| Some(staged.number) != open) {
            if !token.whole.iter().any(|whole| whole.number == staged.number) {
                self.folder.remove(&staged.path)?;
            }
        }
        if let Some(open) = &token.open {
            self.open = Some(OpenFile::reopen(
                &self.folder,
                open,
                &*self.encodings,
                self.shape.schema(),
            )?);
        }
        self.next = token.next;
        self.folder.sync()
    }

    fn write(&mut self, epoch: Epoch, changes: &Changes) -> Result<u64> {
        let rows = self.shape.rows(epoch, changes)?;
        let settings = self.settings.clone();
        let open = self.open_file()?;
        let bytes = open.append(&rows)?;
        if settings.is_full(open.figures()) {
            self.close_open()?;
        }
        Ok(bytes)
    }

    fn prepare(&mut self, _: Epoch, cut: Cut) -> Result<String> {
        let is_due = self.due().is_some_and(|due| due <= Instant::now());
        if cut == Cut::End || is_due {
            self.close_open()?;
        }
        let open = self.open.as_mut().map(OpenFile::settle).transpose()?;
        self.folder.sync()?;
        let token = Token {
            whole: self.whole.clone(),
            open,
            next: self.next,
        };
        Ok(token.write())
    }

    fn commit(&mut self, token: &str) -> Result<()> {
        let token = Token::read(token)?;
        for whole in &token.whole {
            self.folder.publish(whole)?;
        }
        if !token.whole.is_empty() {
            self.folder.sync()?;
        }
        self.whole
            .retain(|mine| !token.whole.iter().any(|whole| whole.number == mine.number));
        Ok(())
    }

    fn due(&self) -> Option<Instant> {
        let interval = self.settings.roll_interval?;
        self.open.as_ref().map(|open| open.since() + interval)
    }
}
