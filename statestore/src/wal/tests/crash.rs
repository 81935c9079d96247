//! Crashes: a process that is killed, and power that is lost with writes under way.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;
use crate::wal::verdict::SECTOR;

/// What may be on disk after power is lost, when `durable` bytes of `file` had been synced: of the rest, any sectors,
/// in any order; the others were never written and read as zeros; the file is of any length in between.
fn after_power_loss(random: &mut Random, file: &[u8], durable: usize) -> Vec<u8> {
    let length = durable + random.below((file.len() - durable) as u64 + 1) as usize;
    let mut left = file[..length].to_vec();
    let lost_of_8 = random.below(9);
    let mut at = durable;
    while at < length {
        let end = ((at / SECTOR as usize + 1) * SECTOR as usize).min(length);
        if random.below(8) < lost_of_8 {
            left[at..end].fill(0);
        }
        at = end;
    }
    left
}

#[test]
fn power_loss_never_loses_acknowledged_records_and_never_blocks_the_start() {
    const SEGMENT: &str = "00000000000000000001.wal";
    let mut cuts = 0;
    for seed in 0..150 {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut written: Vec<Record> = Vec::new();
        for round in 0..4 {
            let (mut log, replay) = Log::open(folder.path(), options(64 << 20)).unwrap();
            cuts += u64::from(replay.cut().is_some());
            assert_eq!(
                replay.collect::<Result<Vec<_>>>().unwrap(),
                written,
                "seed {seed}, round {round}"
            );
            let append = |log: &mut Log, written: &mut Vec<Record>, random: &mut Random| {
                for _ in 0..=random.below(5) {
                    written.push(long_record(random.next(), [0, 30, 700, 3000][random.below(4) as usize]));
                    log.append(written.last().unwrap()).unwrap();
                }
            };
            for _ in 0..random.below(3) {
                append(&mut log, &mut written, &mut random);
                log.sync().unwrap();
            }
            if random.below(4) == 0 {
                log.close().unwrap();
                log = open(folder.path()).unwrap().0;
            }
            let acknowledged = written.len();
            let durable = contents(folder.path())[SEGMENT].len();
            append(&mut log, &mut written, &mut random);
            log.sync().unwrap();
            drop(log);

            let mut files = contents(folder.path());
            let left = after_power_loss(&mut random, &files[SEGMENT], durable);
            files.insert(SEGMENT.into(), left);
            restore(folder.path(), &files);
            let records = read(folder.path()).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error:?}"));
            assert!(
                records.len() >= acknowledged,
                "seed {seed}: {} of {acknowledged}",
                records.len()
            );
            assert_eq!(records, written[..records.len()], "seed {seed}, round {round}");
            written.truncate(records.len());
            restore(folder.path(), &files);
        }
    }
    assert!(cuts > 100, "only {cuts} torn tails: the test tests nothing");
}

const CHILD_FOLDER: &str = "CENOTE_WAL_TEST_FOLDER";

/// Not a test of its own: the process that is killed. Prints the number of each record once it is synced.
#[test]
#[ignore = "run by the test below"]
fn child_that_appends_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    let (mut log, replay) = Log::open(
        Path::new(&folder),
        LogOptions {
            segment_bytes: 20_000,
            ..LogOptions::default()
        },
    )
    .unwrap();
    let mut number = replay.count() as u64;
    loop {
        for _ in 0..=number % 4 {
            number += 1;
            log.append(&long_record(number, number % 3 * 900)).unwrap();
        }
        log.sync().unwrap();
        println!("\nsynced {number}");
    }
}

#[test]
fn process_killed_in_the_middle_of_writes_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 1..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "wal::tests::crash::child_that_appends_until_it_is_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut synced = lines
            .map_while(io::Result::ok)
            .filter_map(|line| line.strip_prefix("synced ")?.parse().ok());
        let seen: u64 = synced.by_ref().nth(round as usize * 17).expect("the child syncs");
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = synced.last().unwrap_or(seen);
        let records = read(folder.path()).unwrap();
        assert!(
            acknowledged > before && records.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            records.len()
        );
        for (number, record) in (1..).zip(&records) {
            assert_eq!(*record, long_record(number, number % 3 * 900));
        }
        before = records.len() as u64;
    }
    assert!(segment_names(folder.path()).len() > 3);
}
