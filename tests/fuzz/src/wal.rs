//! The write-ahead log's reader on damaged files.
//!
//! # Rules checked
//! 1. No damage makes the reader panic.
//! 2. **A prefix, or the damage is named.** What is read back is a first part of what was written, never another
//!    record; else the log is refused as corrupt or not supported, with the name of a file, and nothing is changed.
//! 3. A log that opened goes on: a record appended now is read back behind the others.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use cenote_statestore::wal::{Files, Log, LogOptions, Record};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// The real thing without waiting for the disk: a fuzz target crashes no machine.
#[derive(Debug)]
struct Unsynced;

impl Files for Unsynced {
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

type Contents = BTreeMap<String, Vec<u8>>;

/// A log: its files, and how many records were written.
struct Sample {
    files: Contents,
    records: u64,
}

/// Logs of several shapes: one segment and several, closed and not, synced one by one and in groups, empty.
static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let shapes: [(u64, &[u64], bool); 6] = [
        (1 << 20, &[1, 2, 4], false),
        (1 << 20, &[3], true),
        (900, &[1, 2, 4, 5], false),
        (900, &[2, 2, 2, 2], true),
        (1, &[1, 1, 1], false),
        (1 << 20, &[], true),
    ];
    shapes
        .iter()
        .map(|(segment, groups, closed)| sample(*segment, groups, *closed))
        .collect()
});

fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a folder")
}

fn open(folder: &Path, segment_bytes: u64) -> Result<(Log, Vec<Record>)> {
    let options = LogOptions {
        segment_bytes,
        files: Arc::new(Unsynced),
    };
    let (log, replay) = Log::open(folder, options)?;
    let records = replay.collect::<Result<Vec<_>>>()?;
    Ok((log, records))
}

fn record(number: u64) -> Record {
    let rows = number % 3;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..rows as i64).map(|row| (row != 1).then_some(row << 40)),
    ));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("n{number}.{row}")),
    ));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("n", names, true)]).expect("a batch");
    Record {
        epoch: Epoch(number / 2),
        kind: number as u8,
        header: format!("{{\"n\":{number}}}").into_bytes(),
        batches: if number.is_multiple_of(4) { vec![] } else { vec![batch] },
    }
}

fn sample(segment_bytes: u64, groups: &[u64], closed: bool) -> Sample {
    let folder = folder();
    let (mut log, _) = open(folder.path(), segment_bytes).expect("a new log");
    let mut records = 0;
    for group in groups {
        for _ in 0..*group {
            records += 1;
            log.append(&record(records)).expect("appended");
        }
        log.sync().expect("synced");
    }
    match closed {
        true => log.close().expect("closed"),
        false => drop(log),
    }
    Sample {
        files: contents(folder.path()),
        records,
    }
}

fn contents(folder: &Path) -> Contents {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"));
    let read = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())));
    read.filter(|(name, _)| name != "lock")
        .map(|(name, bytes)| (name, bytes.expect("a file")))
        .collect()
}

/// Bytes of the input as numbers; zeros where it ends.
struct Dice<'a>(&'a [u8]);

impl Dice<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self
            .0
            .split_first()
            .map_or((0, &[][..]), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bound.max(1)
    }
}

/// One piece of damage.
fn damage(files: &mut Contents, dice: &mut Dice) {
    let names: Vec<String> = files.keys().cloned().collect();
    let Some(name) = names.get(dice.below(names.len())).cloned() else {
        return;
    };
    let other = names[dice.below(names.len())].clone();
    let bytes = files.entry(name.clone()).or_default();
    let at = dice.below(bytes.len());
    let length = dice.below(64).min(bytes.len() - at);
    match dice.byte() % 10 {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] ^= 1 << (dice.byte() % 8),
        2 if at < bytes.len() => bytes[at] = dice.byte(),
        3 => bytes[at..at + length].fill(0),
        4 => drop(bytes.drain(at..at + length)),
        5 => {
            let copied = bytes[at..at + length].to_vec();
            bytes.splice(at..at, copied);
        }
        6 => {
            let end = bytes.len();
            bytes.resize(end + 1 + dice.below(2048), dice.byte());
        }
        7 => drop(files.remove(&name)),
        8 => {
            let copied = files[&other].clone();
            files.insert(name, copied);
        }
        _ => {
            let copied = bytes.clone();
            files.insert(format!("{:020}.wal", 1 + dice.below(16)), copied);
        }
    }
}

fn refused(error: &Error, folder: &Path, files: &Contents) {
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
        "{}",
        error.render()
    );
    assert!(
        error.message().contains(&folder.display().to_string()),
        "{}",
        error.render()
    );
    assert_eq!(&contents(folder), files, "changed and refused: {}", error.render());
}

/// Checks one input: which log, and what is done to its files.
pub fn check(data: &[u8]) {
    let mut dice = Dice(data);
    let sample = &SAMPLES[dice.below(SAMPLES.len())];
    let mut files = sample.files.clone();
    while !dice.0.is_empty() {
        damage(&mut files, &mut dice);
    }
    let folder = folder();
    for (name, bytes) in &files {
        fs::write(folder.path().join(name), bytes).expect("written");
    }
    let (log, mut records) = match open(folder.path(), 900) {
        Ok(opened) => opened,
        Err(error) => return refused(&error, folder.path(), &files),
    };
    assert!(records.len() as u64 <= sample.records, "more records than were written");
    let written: Vec<Record> = (1..=records.len() as u64).map(record).collect();
    assert_eq!(records, written, "not what was written");
    goes_on(log, folder.path(), &mut records);
}

fn goes_on(mut log: Log, folder: &Path, records: &mut Vec<Record>) {
    let added = record(77);
    log.append(&added).expect("appended");
    log.sync().expect("synced");
    drop(log);
    records.push(added);
    let (_, read) = open(folder, 900).unwrap_or_else(|error| panic!("does not open again: {}", error.render()));
    assert_eq!(&read, records, "after going on");
}
