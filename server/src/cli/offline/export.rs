//! `cenote state export --from`: tables as files that other programs read.

use super::rows::repeated;
use crate::encode::{Encoder, Format, Numbers, chunks};
use cenote_statestore::checkpoint::{Checkpoint, TableEntry};
use cenote_statestore::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Encoded bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Write tables of a checkpoint to files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cenote state export --from ckpt/ID --table by_owner --format parquet --out by_owner.parquet
  cenote state export --from ckpt --format csv --out folder        every table, a file each")]
pub struct ExportOptions {
    /// The table; without it all of them go into a folder, a file each
    #[arg(long, value_name = "NAME", env = "CENOTE_TABLE")]
    table: Option<String>,
    /// Format of the files; `arrow` is IPC in stream format
    #[arg(long, value_enum, default_value = "parquet", env = "CENOTE_FORMAT")]
    format: Format,
    /// The file, or the folder, to write; a file that is there is replaced once the new one is whole
    #[arg(long, value_name = "PATH", env = "CENOTE_OUT")]
    out: PathBuf,
}

/// Writes what was asked for; one line on standard error for each file.
///
/// # Errors
/// There is no such table, a file of the checkpoint is damaged, or a file cannot be written.
pub fn export(checkpoint: &Checkpoint, options: &ExportOptions) -> Result<()> {
    if let Some(name) = &options.table {
        let table = checkpoint.table(name)?;
        return write_table(checkpoint, table, options.format, &options.out);
    }
    fs::create_dir_all(&options.out).map_err(|cause| unwritable(&options.out, cause))?;
    for table in &checkpoint.manifest().tables {
        let name = format!("{}.{}", table.file_name(), ending(options.format));
        write_table(checkpoint, table, options.format, &options.out.join(name))?;
    }
    Ok(())
}

fn ending(format: Format) -> &'static str {
    match format {
        Format::Ndjson => "ndjson",
        Format::Table => "txt",
        Format::Csv => "csv",
        Format::Arrow => "arrow",
        Format::Parquet => "parquet",
    }
}

fn write_table(checkpoint: &Checkpoint, table: &TableEntry, format: Format, target: &Path) -> Result<()> {
    // A pipe, a device or a link is written to; only a file is replaced.
    let is_replaced = fs::symlink_metadata(target).map_or(true, |there| there.is_file());
    let rows = match is_replaced {
        false => write_file(checkpoint, table, format, target)?,
        true => {
            let aside = target.with_added_extension("tmp");
            let written = write_file(checkpoint, table, format, &aside);
            let placed = written.and_then(|rows| match fs::rename(&aside, target) {
                Ok(()) => Ok(rows),
                Err(cause) => Err(unwritable(target, cause)),
            });
            placed.inspect_err(|_| drop(fs::remove_file(&aside)))?
        }
    };
    eprintln!("{}: {rows} rows of {}", target.display(), table.readable_name());
    Ok(())
}

fn write_file(checkpoint: &Checkpoint, table: &TableEntry, format: Format, path: &Path) -> Result<u64> {
    let failed = |cause| unwritable(path, cause);
    let rows = repeated(checkpoint, &table.readable_name())?;
    let mut encoder: Box<dyn Encoder> = format.encoder(&table.table_schema(), Numbers::Raw)?;
    let mut file = File::create(path).map_err(failed)?;
    let (mut buffer, mut count) = (Vec::new(), 0);
    encoder.start(&mut buffer)?;
    for batch in rows {
        for chunk in chunks(&batch?) {
            count += chunk.num_rows() as u64;
            encoder.batch(&chunk, &mut buffer)?;
            if buffer.len() >= WRITE_BYTES {
                file.write_all(&buffer).map_err(failed)?;
                buffer.clear();
            }
        }
    }
    encoder.finish(&mut buffer)?;
    file.write_all(&buffer).map_err(failed)?;
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file {
        file.sync_all().map_err(failed)?;
    }
    Ok(count)
}

fn unwritable(path: &Path, cause: io::Error) -> Error {
    let message = format!("cannot write `{}`: {cause}", path.display());
    Error::new(ErrorKind::Unavailable, "CLI-0019", message)
        .sqlstate("58030")
        .source(cause)
}
