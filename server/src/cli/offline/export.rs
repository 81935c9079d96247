//! `cenote state export --from`: tables of a checkpoint as files.

use super::named;
use super::rows::repeated;
use crate::cli::export::ExportOptions;
use cenote_statestore::Result;
use cenote_statestore::checkpoint::{Checkpoint, TableEntry};

/// Writes what was asked for; one line on standard error for each file.
///
/// # Errors
/// There is no such table, a file of the checkpoint is damaged, or a file cannot be written.
pub fn export(checkpoint: &Checkpoint, options: &ExportOptions) -> Result<()> {
    options.prepare()?;
    let write = |table: &TableEntry| {
        let name = table.readable_name();
        let rows = repeated(checkpoint, &name)?;
        options.write(&name, &table.file_name(), &table.table_schema(), rows)
    };
    match &options.table {
        Some(name) => write(checkpoint.table(&named(checkpoint, name))?),
        None => checkpoint.manifest().tables.iter().try_for_each(write),
    }
}
