//! `cenote verify`: everything that is wrong with a checkpoint, or with all checkpoints of a folder.

use super::none_there;
use crate::cli::output::Output;
use crate::cli::place::Place;
use crate::cli::progress::Line;
use cenote_statestore::checkpoint::{CheckpointId, Checkpoints, Verified};
use cenote_statestore::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// Check a checkpoint for damage: every length, every checksum, every row
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cenote verify ckpt/ID              one checkpoint
  cenote verify ckpt                 all checkpoints of a folder
  cenote verify s3://bucket/prefix   all checkpoints of a bucket")]
pub struct VerifyOptions {
    /// `ROOT/ID` for one checkpoint, `ROOT` for all in it; `ROOT` is a path or a URL
    #[arg(value_name = "PLACE", env = "CENOTE_PATH")]
    path: PathBuf,
}

/// Prints a line for each checkpoint that is whole, and one for each thing that is wrong.
///
/// # Errors
/// `Corrupt`: something is damaged. `Invalid`: there is no checkpoint.
pub fn verify(options: &VerifyOptions) -> Result<()> {
    let place = Place::parse(&options.path)?;
    let checkpoints = Checkpoints::new(place.blobs.clone());
    let mut output = Output::stdout(Line::default());
    let problems = match &place.id {
        Some(id) => one(&checkpoints, id, &mut output)?,
        None => all(&checkpoints, &place, &mut output)?,
    };
    for problem in &problems {
        tell(&mut output, format!("damaged: {}", problem.message()))?;
    }
    match problems.len() {
        0 => Ok(()),
        count => {
            let things = if count == 1 {
                "1 thing is"
            } else {
                &format!("{count} things are")
            };
            let message = format!("cannot vouch for `{}`: {things} damaged", options.path.display());
            Err(Error::new(ErrorKind::Corrupt, "CLI-0021", message))
        }
    }
}

fn tell(output: &mut Output, line: String) -> Result<()> {
    output.buffer().extend_from_slice(line.as_bytes());
    output.buffer().push(b'\n');
    output.flush()
}

fn one(checkpoints: &Checkpoints, id: &str, output: &mut Output) -> Result<Vec<Error>> {
    let checkpoint = match checkpoints.open(id) {
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt) => return Ok(vec![error]),
        opened => opened?,
    };
    let verified = checkpoint.verify()?;
    if verified.problems.is_empty() {
        tell(output, summary(&checkpoint.manifest().id(), &verified))?;
    }
    Ok(verified.problems)
}

fn summary(id: &CheckpointId, verified: &Verified) -> String {
    let Verified {
        files,
        bytes,
        tables,
        rows,
        ..
    } = verified;
    format!("ok: {id}: {tables} tables, {rows} rows, {files} files, {bytes} bytes")
}

fn all(checkpoints: &Checkpoints, place: &Place, output: &mut Output) -> Result<Vec<Error>> {
    let found = checkpoints.all()?;
    if found.is_empty() {
        let is_data_dir = place.folder.as_ref().is_some_and(|folder| folder.join("log").is_dir());
        return Err(match is_data_dir {
            false => none_there(place.blobs.as_ref()),
            true => Error::new(
                ErrorKind::Unsupported,
                "CLI-0001",
                "cannot verify a data directory: not supported yet",
            )
            .attempt("cenote verify ROOT/ID for a checkpoint"),
        });
    }
    let (mut problems, mut ids) = (Vec::new(), Vec::new());
    for (id, manifest) in found {
        match manifest {
            Err(error) => problems.push(error),
            Ok(_) => problems.extend(one(checkpoints, id.as_str(), output)?),
        }
        ids.push(id);
    }
    match checkpoints.owner() {
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        owner => problems.extend(owner.err()),
    }
    for (_, savepoint) in checkpoints.each_savepoint()? {
        match savepoint {
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            Err(error) => problems.push(error),
            Ok((name, id)) if !ids.contains(&id) => problems.push(Error::new(
                ErrorKind::Corrupt,
                "CKPT-0002",
                format!("checkpoint {id}, which savepoint \"{name}\" names, is not there"),
            )),
            Ok(_) => {}
        }
    }
    Ok(problems)
}
