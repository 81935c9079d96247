//! Faults of the file system, one at every step: an error is told, nothing that was there is damaged, and the next checkpoint
//! is good. Every kind of step is proved to have failed in every way.

use super::life::{before, go_on, judge, live};
use super::*;
use std::collections::BTreeSet;
use std::io::{Read, Seek, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What happens at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The step fails and does nothing.
    Fails,
    /// A write stores half of its bytes, and the next one finds the disk full.
    DiskFull,
    /// The step is done, and an error is told nevertheless.
    DoneButFails,
    /// The step is done by half, or not at all, and success is told.
    Lies,
    /// This step and all later ones fail, as in a process that was killed.
    Dies,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    at: usize,
    steps: AtomicUsize,
    fired: Mutex<Vec<&'static str>>,
}

fn injected() -> io::Error {
    io::Error::other("injected")
}

impl Faulty {
    fn new(fault: Fault, at: usize) -> Arc<Faulty> {
        let (steps, fired) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Faulty {
            fault,
            at,
            steps,
            fired,
        })
    }

    /// Whether the fault is due at this step, which is counted.
    fn due(&self, step: &'static str) -> bool {
        let number = self.steps.fetch_add(1, Ordering::Relaxed);
        let due = number == self.at || (self.fault == Fault::Dies && number > self.at);
        if due {
            self.fired.lock().unwrap().push(step);
        }
        due
    }

    fn step<T>(
        &self,
        name: &'static str,
        real: impl Fn() -> io::Result<T>,
        lie: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match (self.due(name), self.fault) {
            (false, _) => real(),
            (true, Fault::DoneButFails) => real().and(Err(injected())),
            (true, Fault::Lies) => lie(),
            (true, _) => Err(injected()),
        }
    }

    fn fired(&self) -> Option<&'static str> {
        self.fired.lock().unwrap().first().copied()
    }
}

impl Files for Faulty {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let was_full = self.fault == Fault::DiskFull && self.fired() == Some("write");
        if was_full && self.steps.load(Ordering::Relaxed) == self.at + 1 {
            self.steps.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let half = &bytes[..bytes.len().div_ceil(2)];
        match (self.due("write"), self.fault) {
            (false, _) => Unsynced.write(file, bytes),
            (true, Fault::DiskFull) => Unsynced.write(file, half),
            (true, Fault::DoneButFails) => Unsynced.write(file, bytes).and(Err(injected())),
            (true, Fault::Lies) => Unsynced.write(file, half).map(|_| bytes.len()),
            (true, _) => Err(injected()),
        }
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.step("sync", || Ok(()), || Ok(()))
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.step("sync_folder", || Ok(()), || Ok(()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove", || Unsynced.remove(path), || Ok(()))
    }
}

impl DiskFiles for Faulty {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.step("create", || Unsynced.create(path), tempfile::tempfile)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step("create_folder", || Unsynced.create_folder(path), || Ok(()))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("link", || Unsynced.link(from, to), || Ok(()))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let half = || {
            let mut bytes = Vec::new();
            Unsynced.open(path)?.read_to_end(&mut bytes)?;
            let mut file = tempfile::tempfile()?;
            file.write_all(&bytes[..bytes.len() / 2])?;
            file.rewind()?;
            Ok(file)
        };
        self.step("open", || Unsynced.open(path), half)
    }

    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let half = || {
            let mut entries = Unsynced.entries(folder)?;
            entries.truncate(entries.len() / 2);
            Ok(entries)
        };
        self.step("entries", || Unsynced.entries(folder), half)
    }
}

fn disk(folder: &Path, files: Arc<dyn DiskFiles>) -> Arc<dyn Blobs> {
    Arc::new(LocalDisk::with_files(folder, files))
}

#[test]
fn fault_at_every_step_is_told_damages_nothing_and_the_next_checkpoint_is_good() {
    let origin = tempfile::tempdir().unwrap();
    let (first, second) = before(&disk(origin.path(), Arc::new(Unsynced)));
    let start = files(origin.path());
    for fault in [
        Fault::Fails,
        Fault::DiskFull,
        Fault::DoneButFails,
        Fault::Lies,
        Fault::Dies,
    ] {
        let mut fired = BTreeSet::new();
        for at in 0.. {
            let folder = tempfile::tempdir().unwrap();
            restore(folder.path(), &start);
            let faulty = Faulty::new(fault, at);
            let life = live(disk(folder.path(), faulty.clone()), &second);
            let case = format!("{fault:?} at step {at} ({:?})", faulty.fired());
            let Some(step) = faulty.fired() else {
                assert!(life.error.is_none(), "{case}: {:?}", life.error);
                assert!(at > 40, "only {at} steps");
                break;
            };
            fired.insert(step);
            match &life.error {
                // Of lies some cannot be seen; they must do no harm.
                Some(error) if fault != Fault::Lies => {
                    assert_eq!(
                        (error.kind(), error.state()),
                        (ErrorKind::Unavailable, "58030"),
                        "{case}: {error:?}"
                    );
                }
                Some(_) => {}
                None => assert!(fault == Fault::Lies || step == "remove", "{case}: no error"),
            }
            let unharmed = disk(folder.path(), Arc::new(Unsynced));
            let newest = judge(&unharmed, &first, &second, &life, &case);
            go_on(&unharmed, &newest, &case);
        }
        let every = [
            "create",
            "create_folder",
            "entries",
            "link",
            "open",
            "remove",
            "sync",
            "sync_folder",
            "write",
        ];
        assert_eq!(fired.into_iter().collect::<Vec<_>>(), every, "{fault:?}");
    }
}

#[test]
fn lies_of_writes_are_found_out_before_a_reader_could_see_them() {
    let mut found_out = 0;
    for at in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let (_, second) = before(&disk(folder.path(), Arc::new(Unsynced)));
        let faulty = Faulty::new(Fault::Lies, at);
        let life = live(disk(folder.path(), faulty.clone()), &second);
        if matches!(faulty.fired(), Some("write" | "link")) && !life.named {
            let error = life.error.unwrap();
            assert!(matches!(error.code(), "CKPT-0002" | "CKPT-0005"), "{error:?}");
            found_out += 1;
        }
    }
    assert!(found_out >= 4, "{found_out}");
}

#[test]
fn first_owner_of_a_folder_survives_every_fault_while_it_is_written_down() {
    for fault in [
        Fault::Fails,
        Fault::DiskFull,
        Fault::DoneButFails,
        Fault::Lies,
        Fault::Dies,
    ] {
        for at in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("deep/root");
            let faulty = Faulty::new(fault, at);
            let opened = open_with(&root, faulty.clone()).is_ok();
            let case = format!("{fault:?} at step {at} ({:?})", faulty.fired());
            // Only half a file that was told to be whole stands in the way, and is named.
            match open_with(&root, Arc::new(Unsynced)) {
                Ok(_) => assert_eq!(reader(&root).owner().unwrap().as_deref(), Some(SERVER), "{case}"),
                Err(error) => {
                    assert!(
                        !opened && fault == Fault::Lies && faulty.fired() == Some("write"),
                        "{case}: {error:?}"
                    );
                    assert!(error.message().contains(OWNER), "{error:?}");
                }
            }
        }
    }
}
