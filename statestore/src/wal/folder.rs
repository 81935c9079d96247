//! The folder of a log: made durably, and used by one process at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::fault;
use super::files::Files;
use crate::Result;

/// The file that is locked; it holds the number of the process.
pub(super) const LOCK_NAME: &str = "lock";

/// Creates the folder, durably, if it is not there.
pub(super) fn create(folder: &Path, files: &dyn Files) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let failed = |error| fault::io("create", folder, error);
    let above = folder
        .parent()
        .filter(|above| !above.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    create(above, files)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => files.sync_folder(above).map_err(failed),
    }
}

/// A folder taken for this process. The lock ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct FolderLock(File);

impl FolderLock {
    /// Takes the lock, and writes down who holds it.
    pub(super) fn take(folder: &Path) -> Result<FolderLock> {
        let path = folder.join(LOCK_NAME);
        let failed = |error| fault::io("lock", &path, error);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                return Err(fault::locked(folder, holder.trim()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let lock = FolderLock(file);
        let holder = format!("{}\n", std::process::id());
        io::Write::write_all(&mut &lock.0, holder.as_bytes()).map_err(failed)?;
        // Not cut to zero before: some file systems then wait for the disk.
        lock.0.set_len(holder.len() as u64).map_err(failed)?;
        Ok(lock)
    }
}

impl Drop for FolderLock {
    /// Closing the file is not enough: a child that is just being started holds a copy of it until it runs.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
