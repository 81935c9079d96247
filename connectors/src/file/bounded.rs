//! Reading files once: to their ends, or up to offsets reached before.

use super::identity::Identity;
use super::policy;
use super::read::{FileFault, Halt, Reader, Task};
use super::sink::{BadLine, Sink};
use super::{FileSource, partition_name};
use cenote_engine::port::{Offsets, PartitionOffset, SourceOutput, StopToken};
use cenote_statestore::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Reads every file that is not done yet, in the order of their paths.
pub(crate) fn read_once(source: &FileSource, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<()> {
    let mut sink = Sink::new(&source.request, &source.settings, output)?;
    let mut reader = Reader::new(&source.request, &source.settings, stop);
    let offsets = &source.request.offsets;
    let mut files = Vec::new();
    for path in source.location.list()? {
        let partition = partition_name(&path);
        if !offsets.get(&partition).is_some_and(|offset| offset.done) {
            files.push((partition, path));
        }
    }
    sink.expect_bytes(
        files
            .iter()
            .filter_map(|(_, path)| path.metadata().ok())
            .map(|metadata| metadata.len())
            .sum(),
    );
    for (partition, path) in &files {
        let offset = offsets.get(partition);
        let task = Task {
            partition,
            path,
            offset,
            until: None,
            follow: false,
        };
        let outcome = reader.read(&task, &mut sink);
        if !settle(outcome, &task, &mut sink)? {
            return Ok(());
        }
        finish(&task, &mut sink);
    }
    sink.flush()
}

/// What became of a file: a fault of its own is a bad row, unless the source is to stop at it.
///
/// # Returns
/// Whether to go on: `false` if the source was told to stop.
///
/// # Errors
/// The source must end.
pub(crate) fn settle(outcome: Result<bool, Halt>, task: &Task<'_>, sink: &mut Sink<'_>) -> Result<bool> {
    let fault = match outcome {
        Ok(go_on) => return Ok(go_on),
        Err(Halt::Source(error)) => return Err(error),
        Err(Halt::File(fault)) => fault,
    };
    tracing::warn!(
        file = task.partition,
        line = fault.line,
        "cannot read file: {}",
        fault.reason
    );
    let byte_offset = sink
        .latest(task.partition)
        .or(task.offset)
        .map_or(0, |offset| offset.position);
    let FileFault { line, reason, sqlstate } = fault;
    sink.refuse(BadLine {
        partition: task.partition,
        line,
        byte_offset,
        text: b"",
        reason,
        sqlstate,
        code: "CONN-0010",
    })?;
    finish(task, sink);
    Ok(true)
}

/// Notes that a file is not to be read again.
fn finish(task: &Task<'_>, sink: &mut Sink<'_>) {
    let reached = sink.latest(task.partition).or(task.offset).cloned();
    let nothing = || PartitionOffset {
        position: 0,
        records: 0,
        done: true,
        identity: String::new(),
    };
    let offset = reached.map_or_else(nothing, |offset| PartitionOffset { done: true, ..offset });
    sink.reached(task.partition, offset);
}

/// Reads again what was read up to `until`, exactly.
pub(crate) fn replay(
    source: &FileSource,
    until: &Offsets,
    output: &mut dyn SourceOutput,
    stop: &StopToken,
) -> Result<()> {
    let mut sink = Sink::new(&source.request, &source.settings, output)?;
    let mut reader = Reader::new(&source.request, &source.settings, stop);
    for (partition, target) in until {
        let offset = source.request.offsets.get(partition);
        if offset.map_or(0, |offset| offset.position) >= target.position {
            continue;
        }
        let path = whereabouts(source, partition, target)?;
        let task = Task {
            partition,
            path: &path,
            offset,
            until: Some(target.position),
            follow: false,
        };
        match reader.read(&task, &mut sink) {
            Ok(true) => sink.reached(partition, target.clone()),
            Ok(false) => return Ok(()),
            Err(Halt::Source(error)) => return Err(error),
            Err(Halt::File(fault)) => return Err(gone(partition, &fault.reason, fault.sqlstate)),
        }
    }
    sink.flush()
}

/// Where a file read before is now: at its path, or renamed among the others.
fn whereabouts(source: &FileSource, partition: &str, target: &PartitionOffset) -> Result<PathBuf> {
    let Some(known) = Identity::parse(&target.identity) else {
        return Ok(PathBuf::from(partition));
    };
    let is_it = |path: &Path| {
        let file = policy::open(path, &source.request.paths)?;
        Ok::<bool, Error>(known.fits(&file)?)
    };
    let own = PathBuf::from(partition);
    if own.exists() && is_it(&own)? {
        return Ok(own);
    }
    for path in source.location.list()? {
        let at_place = path.metadata().is_ok_and(|metadata| known.is_at(&metadata));
        if at_place && is_it(&path)? {
            return Ok(path);
        }
    }
    Err(gone(
        partition,
        "it was cut short, replaced or taken away since it was read",
        "55000",
    ))
}

/// CONN-0008: rows that were read cannot be read again.
fn gone(partition: &str, reason: &str, sqlstate: &'static str) -> Error {
    Error::new(
        ErrorKind::Expired,
        "CONN-0008",
        format!("cannot read file `{partition}` again: {reason}"),
    )
    .sqlstate(sqlstate)
    .attempt("put the file back as it was, or drop the table and create it anew")
}
