//! `cenote state export`: tables as files that other programs read.
//!
//! # Rules kept here
//! 1. A file that is there is replaced once the new one is whole; what fails leaves it as it was.
//!
//! # Not here
//! Where rows come from: `offline` for a checkpoint, `state` for a server.

use crate::encode::{Encoder, Format, Numbers, chunks};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Encoded bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Write tables of a server or of a checkpoint to files, all as of one epoch
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cenote state export --table by_owner --format parquet --out by_owner.parquet
  cenote state export --format csv --out folder        every table, view and state table, a file each
  cenote state export --from ckpt/ID --out folder      the same of a checkpoint, no server needed")]
pub struct ExportOptions {
    /// The table; without it all of them go into a folder, a file each
    #[arg(long, value_name = "NAME", env = "CENOTE_TABLE")]
    pub table: Option<String>,
    /// Format of the files; `arrow` is IPC in stream format
    #[arg(long, value_enum, default_value = "parquet", env = "CENOTE_FORMAT")]
    format: Format,
    /// The file, or the folder, to write; a file that is there is replaced once the new one is whole
    #[arg(long, value_name = "PATH", env = "CENOTE_OUT")]
    out: PathBuf,
}

impl ExportOptions {
    /// Makes the folder, if files go into one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn prepare(&self) -> Result<()> {
        match self.table {
            Some(_) => Ok(()),
            None => fs::create_dir_all(&self.out).map_err(|cause| unwritable(&self.out, cause)),
        }
    }

    /// Writes one table; tells so on standard error.
    ///
    /// # Arguments
    /// - `name`: how people call it.
    /// - `file_name`: how its file in a folder is called, without an ending.
    ///
    /// # Errors
    /// The rows', or the file cannot be written.
    pub fn write(
        &self,
        name: &str,
        file_name: &str,
        schema: &SchemaRef,
        rows: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<()> {
        let target = match self.table {
            Some(_) => self.out.clone(),
            None => self.out.join(format!("{file_name}.{}", ending(self.format))),
        };
        // A pipe, a device or a link is written to; only a file is replaced.
        let is_replaced = fs::symlink_metadata(&target).map_or(true, |there| there.is_file());
        let rows = match is_replaced {
            false => write_file(self.format, &target, schema, rows)?,
            true => {
                let aside = target.with_added_extension("tmp");
                let written = write_file(self.format, &aside, schema, rows);
                let placed = written.and_then(|rows| match fs::rename(&aside, &target) {
                    Ok(()) => Ok(rows),
                    Err(cause) => Err(unwritable(&target, cause)),
                });
                placed.inspect_err(|_| drop(fs::remove_file(&aside)))?
            }
        };
        eprintln!("{}: {rows} rows of {name}", target.display());
        Ok(())
    }
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

fn write_file(
    format: Format,
    path: &Path,
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<u64> {
    let failed = |cause| unwritable(path, cause);
    let mut encoder: Box<dyn Encoder> = format.encoder(schema, Numbers::Raw)?;
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
