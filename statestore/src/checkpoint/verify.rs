//! Everything that is wrong with a checkpoint, in one go.

use super::listing::Checkpoint;
use super::manifest::{PartEntry, TableEntry};
use super::read::check_bytes;
use crate::{Error, ErrorKind, Result};

/// What was checked, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Files, the manifest included.
    pub files: usize,
    /// Bytes of the tables' files.
    pub bytes: u64,
    /// Tables.
    pub tables: usize,
    /// Rows of all tables, with their multiplicities, as far as they can be read.
    pub rows: u64,
    /// What is wrong; each names a file or a table.
    pub problems: Vec<Error>,
}

pub(super) fn verify(checkpoint: &Checkpoint) -> Result<Verified> {
    let manifest = checkpoint.manifest();
    let mut verified = Verified {
        files: 1 + manifest.parts().count(),
        bytes: manifest.bytes,
        tables: manifest.tables.len(),
        ..Verified::default()
    };
    for table in &manifest.tables {
        let mut is_whole = true;
        for part in table.parts() {
            is_whole &= note(checkpoint.check_part(part), &mut verified.problems)?;
        }
        // What is damaged is named already; its rows mean nothing.
        if is_whole {
            let rows = read_all(checkpoint, table);
            verified.rows += *rows.as_ref().unwrap_or(&0);
            note(rows.map(drop), &mut verified.problems)?;
        }
    }
    Ok(verified)
}

/// Whether it went well; damage is noted.
fn note(outcome: Result<()>, problems: &mut Vec<Error>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
        Err(error) => {
            problems.push(error);
            Ok(false)
        }
    }
}

fn read_all(checkpoint: &Checkpoint, table: &TableEntry) -> Result<u64> {
    let mut rows = 0u64;
    for changes in checkpoint.read_thoroughly(table) {
        let changes = changes?;
        let weights = (0..changes.len()).map(|row| changes.weights().get(row).unsigned_abs());
        rows = weights.fold(rows, u64::saturating_add);
    }
    match table.rows {
        Some(expected) if expected != rows => Err(checkpoint.miscounted(table, rows, expected)),
        _ => Ok(rows),
    }
}

impl Checkpoint {
    fn check_part(&self, part: &PartEntry) -> Result<()> {
        check_bytes(self.blobs().as_ref(), part)
    }
}
