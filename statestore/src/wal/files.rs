//! The seam between the log and the file system: every change on disk goes through [`Files`].
//!
//! The default methods are the real thing, so [`Disk`] is empty; tests override single methods to inject faults.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What the log does to files. Each method does the real thing unless it is overridden.
pub trait Files: fmt::Debug + Send + Sync {
    /// Writes a first part of `bytes` at the end of `file` and says how much; it may be less than all.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Makes the contents of `file` durable.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes the names in `folder` durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Cuts `file` to `length` bytes.
    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    /// Gives a file another name in its folder, in one step, in place of any file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {}

/// Writes all of `bytes` at the end of `file`.
pub(super) fn write_all(files: &dyn Files, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match files.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Puts a whole file in place, or leaves what was there: written aside, synced, renamed, and the folder synced.
///
/// # Returns
/// The file, open for appending.
pub(super) fn publish(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<File> {
    let aside = path.with_added_extension(ASIDE);
    // An older attempt may have left a file of this name; appending to that would corrupt this one.
    let _ = fs::remove_file(&aside);
    let file = File::options().create_new(true).append(true).open(&aside)?;
    write_all(files, &file, bytes)?;
    files.sync(&file)?;
    files.rename(&aside, path)?;
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    Ok(file)
}

/// Extension of files that are not in place yet.
pub(super) const ASIDE: &str = "tmp";
