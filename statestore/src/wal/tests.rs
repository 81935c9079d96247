//! Shared by the tests of the log: records to write, folders to compare, random numbers.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;

use super::*;
use crate::wal::folder::LOCK_NAME;
use crate::{Epoch, ErrorKind};

mod begin;
mod crash;
mod damage;
mod faults;
mod golden;
mod messages;
mod round_trip;

/// SplitMix64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Record `number` of a test's history, told from all others by its contents.
fn record(number: u64) -> Record {
    let rows = number % 3;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..rows as i64).map(|row| (row != 1).then_some(row << 40)),
    ));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("n{number}.{row}")),
    ));
    let batch = RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("n", names, true)]).unwrap();
    let batches = if number.is_multiple_of(4) { vec![] } else { vec![batch] };
    Record {
        epoch: Epoch(number / 2),
        kind: number as u8,
        header: format!("{{\"n\":{number}}}").into_bytes(),
        batches,
    }
}

/// A record as [`record`], with a blob of `bytes` random bytes that make it long.
fn long_record(number: u64, bytes: u64) -> Record {
    let mut random = Random(number);
    let mut record = record(number);
    record.header.extend((0..bytes).map(|_| random.next() as u8 | 1));
    record
}

/// Files whose `sync` does nothing: quick, and what a crash before the sync leaves with the operating system.
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

fn options(segment_bytes: u64) -> LogOptions {
    LogOptions {
        segment_bytes,
        files: Arc::new(Unsynced),
    }
}

fn open(folder: &Path) -> Result<(Log, Vec<Record>)> {
    let (log, replay) = Log::open(folder, options(64 << 20))?;
    Ok((log, replay.collect::<Result<Vec<_>>>()?))
}

fn read(folder: &Path) -> Result<Vec<Record>> {
    open(folder).map(|(_, records)| records)
}

/// Writes records up to the last of `bounds`, which is left out, with a sync before each bound; does not close.
fn write(folder: &Path, segment_bytes: u64, bounds: &[u64]) {
    let (mut log, _) = Log::open(folder, options(segment_bytes)).unwrap();
    for group in bounds.windows(2) {
        for number in group[0]..group[1] {
            log.append(&record(number)).unwrap();
        }
        log.sync().unwrap();
    }
}

/// All files of a log but the lock, by name.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().unwrap();
    entries
        .filter(|e| name(e) != LOCK_NAME)
        .map(|e| (name(&e), std::fs::read(e.path()).unwrap()))
        .collect()
}

/// Puts files into an empty folder.
fn restore(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for name in contents(folder).keys() {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

fn segment_names(folder: &Path) -> Vec<String> {
    contents(folder)
        .into_keys()
        .filter(|name| name.ends_with(".wal"))
        .collect()
}

/// Offsets at which the frames of a segment end, by walking their lengths.
fn frame_ends(segment: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = HEADER;
    while at < segment.len() {
        at += u64::from_le_bytes(segment[at + 8..at + 16].try_into().unwrap()) as usize;
        ends.push(at);
    }
    ends
}
