//! Faults of the file system, one at every step: nothing acknowledged is lost, and a log that failed stays failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// What happens at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The step fails and does nothing.
    Fails,
    /// A write stores half of its bytes and the next write fails; other steps fail.
    HalfWritten,
    /// The step is done, and an error is returned nevertheless.
    DoneButFails,
}

/// Files that fail once, at step number `at`, counted from zero.
#[derive(Debug)]
struct Faulty {
    fault: Fault,
    at: usize,
    steps: AtomicUsize,
    fired: Mutex<Vec<&'static str>>,
}

impl Faulty {
    fn new(fault: Fault, at: usize) -> Arc<Faulty> {
        Arc::new(Faulty {
            fault,
            at,
            steps: AtomicUsize::new(0),
            fired: Mutex::default(),
        })
    }

    /// Whether the fault is due at this step, which is counted.
    fn due(&self, step: &'static str) -> bool {
        let due = self.steps.fetch_add(1, Ordering::Relaxed) == self.at;
        if due {
            self.fired.lock().unwrap().push(step);
        }
        due
    }

    fn step(&self, name: &'static str, real: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match (self.due(name), self.fault) {
            (false, _) => real(),
            (true, Fault::DoneButFails) => real().and(Err(io::Error::other("injected"))),
            (true, _) => Err(io::Error::other("injected")),
        }
    }

    fn fired(&self) -> Option<&'static str> {
        self.fired.lock().unwrap().first().copied()
    }
}

impl Files for Faulty {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let half = self.fault == Fault::HalfWritten;
        if half && self.steps.load(Ordering::Relaxed) == self.at + 1 && self.fired() == Some("write") {
            self.steps.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        match (self.due("write"), self.fault) {
            (false, _) => Disk.write(file, bytes),
            (true, Fault::HalfWritten) => Disk.write(file, &bytes[..bytes.len().div_ceil(2)]),
            (true, Fault::DoneButFails) => Disk.write(file, bytes).and(Err(io::Error::other("injected"))),
            (true, Fault::Fails) => Err(io::Error::other("injected")),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step("sync", || Unsynced.sync(file))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step("sync_folder", || Unsynced.sync_folder(folder))
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.step("truncate", || Disk.truncate(file, length))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", || Disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove", || Disk.remove(path))
    }
}

/// What a life of the log got done before its first error.
#[derive(Default)]
struct Life {
    appended: u64,
    acknowledged: u64,
    error: Option<Error>,
}

/// Opens, appends with rolls, syncs, forgets, closes; stops at the first error, after which the log must stay failed.
fn live(folder: &Path, files: Arc<Faulty>, from: u64) -> Life {
    let mut life = Life {
        appended: from,
        acknowledged: from,
        error: None,
    };
    let (mut log, _) = match Log::open(
        folder,
        LogOptions {
            segment_bytes: 900,
            files,
        },
    ) {
        Ok(opened) => opened,
        Err(error) => {
            return Life {
                error: Some(error),
                ..life
            };
        }
    };
    for number in from + 1..=from + 8 {
        let outcome = log
            .append(&record(number))
            .map(|_| life.appended = number)
            .and_then(|()| match number % 3 {
                0 => log.sync().map(|()| life.acknowledged = number),
                _ => Ok(()),
            });
        if let Err(error) = outcome {
            for again in [log.append(&record(0)).unwrap_err(), log.sync().unwrap_err()] {
                assert_eq!((again.code(), again.kind()), ("WAL-0007", ErrorKind::Unavailable));
                assert!(again.detail().unwrap().contains(error.message()));
            }
            life.error = Some(error);
            // An append that failed may be in the log nevertheless: its frame was in the buffer.
            life.appended = number;
            return life;
        }
    }
    let outcome = log
        .forget_before(from + 4)
        .and_then(|()| log.close())
        .map(|()| life.acknowledged = life.appended);
    life.error = outcome.err();
    life
}

/// Opens without faults; the records must be a beginning of what was appended and hold all that was acknowledged.
fn judge(folder: &Path, life: &Life, case: &str) -> u64 {
    let (log, replay) = Log::open(folder, options(64 << 20)).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    let first = replay.next_lsn();
    let records = replay.collect::<Result<Vec<_>>>().unwrap();
    let last = first + records.len() as u64 - 1;
    assert_eq!(records, (first..=last).map(record).collect::<Vec<_>>(), "{case}");
    assert!(
        (life.acknowledged..=life.appended).contains(&last),
        "{case}: {last} not in {}..={}",
        life.acknowledged,
        life.appended
    );
    assert_eq!(log.next_lsn(), last + 1);
    last
}

#[test]
fn fault_at_every_step_loses_nothing_acknowledged_and_poisons_the_log() {
    let mut fired = std::collections::BTreeSet::new();
    for fault in [Fault::Fails, Fault::HalfWritten, Fault::DoneButFails] {
        for at in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let files = Faulty::new(fault, at);
            let life = live(&folder.path().join("log"), files.clone(), 0);
            let case = format!("{fault:?} at step {at} ({:?})", files.fired());
            let Some(step) = files.fired() else {
                assert!(life.error.is_none(), "{case}");
                assert!(at > 20, "only {at} steps");
                break;
            };
            fired.insert(step);
            let error = life.error.as_ref().unwrap_or_else(|| panic!("{case}: no error"));
            assert_eq!(
                (error.kind(), error.state()),
                (ErrorKind::Unavailable, "58030"),
                "{case}"
            );
            let last = judge(&folder.path().join("log"), &life, &case);
            // The log that was mended lives on.
            let next = live(&folder.path().join("log"), Faulty::new(fault, usize::MAX), last);
            assert!(next.error.is_none(), "{case}");
            judge(&folder.path().join("log"), &next, &case);
        }
    }
    assert_eq!(
        fired.into_iter().collect::<Vec<_>>(),
        ["remove", "rename", "sync", "sync_folder", "write"]
    );
}

#[test]
fn fault_while_a_torn_tail_is_cut_leaves_it_to_the_next_open() {
    for at in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 1 << 20, &[1, 4]);
        let mut files = contents(folder.path());
        let segment = files.get_mut("00000000000000000001.wal").unwrap();
        segment.truncate(segment.len() - 3);
        restore(folder.path(), &files);
        let faulty = Faulty::new(Fault::Fails, at);
        let error = Log::open(
            folder.path(),
            LogOptions {
                files: faulty.clone(),
                ..LogOptions::default()
            },
        )
        .unwrap_err();
        assert_eq!(faulty.fired(), Some(["truncate", "sync"][at]));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(read(folder.path()).unwrap(), [record(1), record(2)]);
    }
}

/// Writes that store a byte at a time, and are interrupted in between.
#[derive(Debug, Default)]
struct Trickle(AtomicUsize);

impl Files for Trickle {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        match self.0.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => io::Write::write(&mut file, &bytes[..1]),
        }
    }
}

#[test]
fn short_and_interrupted_writes_are_finished() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(Trickle::default());
    let (mut log, _) = Log::open(
        folder.path(),
        LogOptions {
            segment_bytes: 500,
            files: files.clone(),
        },
    )
    .unwrap();
    (1..6).for_each(|number| assert!(log.append(&record(number)).unwrap() > 0));
    log.sync().unwrap();
    drop(log);
    assert!(files.0.load(Ordering::Relaxed) > 2000);
    assert_eq!(read(folder.path()).unwrap(), (1..6).map(record).collect::<Vec<_>>());
}

#[test]
fn sync_without_new_records_does_not_touch_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::new(Fault::Fails, usize::MAX);
    let (mut log, _) = Log::open(
        folder.path(),
        LogOptions {
            files: files.clone(),
            ..LogOptions::default()
        },
    )
    .unwrap();
    log.append(&record(1)).unwrap();
    log.sync().unwrap();
    let steps = files.steps.load(Ordering::Relaxed);
    log.sync().unwrap();
    assert_eq!(files.steps.load(Ordering::Relaxed), steps);
}

#[test]
fn second_opener_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path()).unwrap();
    let before = contents(folder.path());
    let error = open(folder.path()).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, "WAL-0001"));
    assert!(error.message().contains(&folder.path().display().to_string()));
    assert_eq!(error.detail().unwrap(), format!("process: {}", std::process::id()));
    assert_eq!(contents(folder.path()), before);
    drop(log);
    open(folder.path()).unwrap();
}
