//! Crashes: a process that is killed, and power that is lost with writes under way.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::wal::verdict::SECTOR;

/// A disk that keeps only what was synced for sure, and whose power fails after some steps.
#[derive(Debug)]
struct Power(Mutex<Supply>);

#[derive(Debug)]
struct Supply {
    folder: PathBuf,
    steps_left: u64,
    /// Bytes of each file, by inode, that were synced.
    durable: HashMap<u64, u64>,
    /// Changes that the next sync of a file or folder makes durable.
    pending: Vec<Pending>,
}

#[derive(Debug)]
enum Pending {
    Renamed {
        from: PathBuf,
        to: PathBuf,
        replaced: Option<Vec<u8>>,
    },
    Removed {
        path: PathBuf,
        bytes: Vec<u8>,
    },
    Truncated {
        inode: u64,
        bytes: Vec<u8>,
    },
}

fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

impl Power {
    /// What is in the folder now is durable.
    fn new(folder: &Path, steps_left: u64) -> Arc<Power> {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| File::open(entry.unwrap().path()).unwrap());
        let durable = files
            .map(|file| (inode(&file), file.metadata().unwrap().len()))
            .collect();
        let folder = folder.to_path_buf();
        Arc::new(Power(Mutex::new(Supply {
            folder,
            steps_left,
            durable,
            pending: Vec::new(),
        })))
    }

    fn step(&self) -> io::Result<MutexGuard<'_, Supply>> {
        let mut supply = self.0.lock().unwrap();
        match supply.steps_left.checked_sub(1) {
            Some(left) => supply.steps_left = left,
            None => return Err(io::Error::other("no power")),
        }
        Ok(supply)
    }

    /// Leaves the folder as it may be found when power is back: each change that was not synced took place or not.
    fn lose(&self, random: &mut Random) {
        let mut supply = self.0.lock().unwrap();
        for change in std::mem::take(&mut supply.pending).into_iter().rev() {
            if random.below(2) == 0 {
                supply.undo(change);
            }
        }
        for path in supply.paths() {
            let file = File::open(&path).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let durable = supply.durable.get(&inode(&file)).copied().unwrap_or(0);
            if path.file_name().unwrap() != LOCK_NAME && durable < bytes.len() as u64 {
                std::fs::write(path, after_power_loss(random, &bytes, durable as usize)).unwrap();
            }
        }
    }
}

impl Supply {
    fn paths(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    fn path_of(&self, wanted: u64) -> PathBuf {
        self.paths()
            .into_iter()
            .find(|path| inode(&File::open(path).unwrap()) == wanted)
            .unwrap()
    }

    /// Puts a file back whose contents were durable.
    fn put_back(&mut self, path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
        self.durable
            .insert(inode(&File::open(path).unwrap()), bytes.len() as u64);
    }

    fn undo(&mut self, change: Pending) {
        match change {
            Pending::Renamed { from, to, replaced } => {
                std::fs::rename(&to, &from).unwrap();
                if let Some(bytes) = replaced {
                    self.put_back(&to, &bytes);
                }
            }
            Pending::Removed { path, bytes } => self.put_back(&path, &bytes),
            Pending::Truncated { inode, bytes } => {
                let path = self.path_of(inode);
                self.put_back(&path, &bytes);
            }
        }
    }
}

impl Files for Power {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let _supply = self.step()?;
        Disk.write(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut supply = self.step()?;
        let synced = inode(file);
        supply.durable.insert(synced, file.metadata()?.len());
        supply
            .pending
            .retain(|change| !matches!(change, Pending::Truncated { inode, .. } if *inode == synced));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut supply = self.step()?;
        if folder == supply.folder {
            supply
                .pending
                .retain(|change| matches!(change, Pending::Truncated { .. }));
        }
        Ok(())
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        let mut supply = self.step()?;
        let inode = inode(file);
        let bytes = std::fs::read(supply.path_of(inode))?;
        supply.pending.push(Pending::Truncated { inode, bytes });
        Disk.truncate(file, length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut supply = self.step()?;
        let replaced = std::fs::read(to).ok();
        supply.pending.push(Pending::Renamed {
            from: from.into(),
            to: to.into(),
            replaced,
        });
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut supply = self.step()?;
        let bytes = std::fs::read(path)?;
        supply.pending.push(Pending::Removed {
            path: path.into(),
            bytes,
        });
        Disk.remove(path)
    }
}

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

/// The records that a test wrote, by sequence number, and how many of them were acknowledged.
#[derive(Default)]
struct History {
    written: BTreeMap<u64, Record>,
    acknowledged: u64,
    forgotten: u64,
    cuts: u64,
}

impl History {
    /// Lives with a log until power fails, which is the error that comes back.
    fn live(&mut self, folder: &Path, files: Arc<Power>, random: &mut Random) -> Result<()> {
        let segment_bytes = [3_000, 10_000, 64 << 20][random.below(3) as usize];
        let (mut log, replay) = Log::open(folder, LogOptions { segment_bytes, files })?;
        self.check(&log, replay);
        loop {
            for _ in 0..=random.below(5) {
                let record = long_record(random.next(), [0, 30, 700, 3000][random.below(4) as usize]);
                let lsn = self.written.keys().next_back().map_or(1, |last| last + 1);
                self.written.insert(lsn, record);
                assert_eq!(log.append(&self.written[&lsn])?, lsn);
            }
            log.sync()?;
            self.acknowledged = log.next_lsn() - 1;
            match random.below(8) {
                0 => {
                    self.forgotten = self.forgotten.max(random.below(self.acknowledged));
                    log.forget_before(self.forgotten)?;
                }
                1 => return log.close(),
                _ => {}
            }
        }
    }

    /// All that was acknowledged and not forgotten is there, and then some; from now on that is what was written.
    fn check(&mut self, log: &Log, replay: Replay) {
        self.cuts += u64::from(replay.cut().is_some());
        let first = replay.next_lsn();
        assert!(first == log.first_lsn() && first <= self.forgotten.max(1));
        let records: Vec<Record> = replay.collect::<Result<_>>().unwrap();
        let next = log.next_lsn();
        assert_eq!(records.len() as u64, next - first);
        assert!(
            next > self.acknowledged,
            "{} acknowledged, {} there",
            self.acknowledged,
            next - 1
        );
        assert!(
            records
                .iter()
                .eq(self.written.range(first..next).map(|(_, record)| record))
        );
        self.written.retain(|lsn, _| *lsn < next);
        self.acknowledged = next - 1;
    }
}

#[test]
fn power_loss_never_loses_acknowledged_records_and_never_blocks_the_start() {
    let mut cuts = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::default();
        for round in 0..6 {
            let power = Power::new(folder.path(), random.below(40));
            match history.live(folder.path(), power.clone(), &mut random) {
                Err(error) if error.detail().unwrap_or_default().contains("no power") => {}
                Err(error) if error.message().contains("no power") => {}
                Err(error) => panic!("seed {seed}, round {round}: {error:?}"),
                Ok(()) => {}
            }
            power.lose(&mut random);
        }
        cuts += history.cuts;
    }
    assert!(cuts > 300, "only {cuts} torn tails: the test tests nothing");
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
