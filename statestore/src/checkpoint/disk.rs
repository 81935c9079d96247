//! Blobs as files of a folder on a local disk.
//!
//! A blob is written beside its place under a temporary name, synced, linked to its own name, and the folder is synced. A link
//! fails where the name is taken: that is *put if absent*, also between processes, and needs no lock.
//!
//! # Rules kept here
//! 1. When a write returns, the file, its name, and the names of the folders above it are on disk.
//! 2. Nothing outside the root is read: a path that a symbolic link leads out is refused.
//!
//! # Source
//! What needs which sync: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blobs::{BlobPath, BlobWriter, Blobs, Found, Location, OpenBlob};
use super::identity::random;
use crate::wal::{Disk, Files};

/// What ends the name of a file that is not in place yet.
pub(super) const ASIDE: &str = ".tmp";

/// Tries to make a folder that somebody else removes at the same time.
const FOLDER_TRIES: usize = 3;

/// What checkpoints do to files beyond [`Files`]. Each method does the real thing unless a test overrides it.
pub trait DiskFiles: Files {
    /// Makes a new file.
    ///
    /// # Errors
    /// What the operating system says.
    fn create(&self, path: &Path) -> io::Result<File> {
        File::options().create_new(true).append(true).open(path)
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    /// Gives a file a second name; fails where that is taken.
    ///
    /// # Errors
    /// What the operating system says.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// What the operating system says.
    fn open(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// What is in a folder: names, and for each whether it is a folder, or the length of a file; other things are left out.
    ///
    /// # Errors
    /// What the operating system says.
    fn entries(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if metadata.is_dir() {
                found.push(Entry { name, length: None });
            } else if metadata.is_file() {
                let length = Some(metadata.len());
                found.push(Entry { name, length });
            }
        }
        Ok(found)
    }
}

impl DiskFiles for Disk {}

/// One name in a folder.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Bytes of a file; `None`: it is a folder.
    pub length: Option<u64>,
}

/// Blobs in a folder.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    root: PathBuf,
    files: Arc<dyn DiskFiles>,
}

impl LocalDisk {
    /// Blobs in `root`, which is made with the first one.
    pub fn new(root: impl Into<PathBuf>) -> LocalDisk {
        LocalDisk::with_files(root, Arc::new(Disk))
    }

    /// As [`LocalDisk::new`], with something between it and the operating system: for tests.
    pub fn with_files(root: impl Into<PathBuf>, files: Arc<dyn DiskFiles>) -> LocalDisk {
        let root = root.into();
        LocalDisk { root, files }
    }

    fn place(&self, path: &BlobPath) -> PathBuf {
        self.root.join(path.as_str())
    }

    /// Opens a file in the folder that holds it, which is made if it is not there, folders above it included.
    fn create_aside(&self, aside: &Path) -> io::Result<File> {
        let folder = aside.parent().unwrap_or(&self.root);
        for _ in 0..FOLDER_TRIES {
            self.make_folder(folder)?;
            match self.files.create(aside) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => return outcome,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().unwrap_or(Path::new("."));
        self.make_folder(above)?;
        match self.files.create_folder(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        self.files.sync_folder(above)
    }

    fn walk(&self, folder: &Path, prefix: &str, found: &mut Vec<Found>) -> io::Result<()> {
        let entries = match self.files.entries(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for Entry { name, length } in entries {
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            let Some(blob) = BlobPath::parse(&path) else { continue };
            match length {
                Some(length) => found.push(Found { path: blob, length }),
                None => self.walk(&folder.join(name), &path, found)?,
            }
        }
        Ok(())
    }

    /// The folders that are empty now that `paths` are gone, below the root.
    fn remove_empty_folders(&self, paths: &[BlobPath]) {
        let folders: BTreeSet<PathBuf> = paths
            .iter()
            .flat_map(|path| {
                self.place(path)
                    .ancestors()
                    .skip(1)
                    .map(Path::to_path_buf)
                    .collect::<Vec<_>>()
            })
            .filter(|folder| folder.starts_with(&self.root) && *folder != self.root)
            .collect();
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Blobs for LocalDisk {
    fn create(&self, path: &BlobPath) -> io::Result<Box<dyn BlobWriter>> {
        let target = self.place(path);
        let aside = self
            .place(path)
            .with_file_name(format!("{}.{:08x}{ASIDE}", path.name(), random() as u32));
        let file = self.create_aside(&aside)?;
        let files = self.files.clone();
        let is_done = false;
        Ok(Box::new(DiskWriter {
            files,
            file,
            aside,
            target,
            is_done,
        }))
    }

    fn open(&self, path: &BlobPath) -> io::Result<OpenBlob> {
        let place = self.place(path);
        if !fs::canonicalize(&place)?.starts_with(fs::canonicalize(&self.root)?) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a link leads out of the folder",
            ));
        }
        let file = self.files.open(&place)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        let length = metadata.len();
        let bytes = Box::new(file);
        Ok(OpenBlob { length, bytes })
    }

    fn list(&self, folder: Option<&BlobPath>) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        match folder {
            None => self.walk(&self.root, "", &mut found)?,
            Some(folder) => self.walk(&self.place(folder), folder.as_str(), &mut found)?,
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        let entries = match self.files.entries(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let folders = entries.into_iter().filter(|entry| entry.length.is_none());
        let mut names: Vec<String> = folders.map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    fn delete(&self, paths: &[BlobPath]) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for path in paths {
            let place = self.place(path);
            match self.files.remove(&place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome?,
            }
            folders.extend(place.parent().map(Path::to_path_buf));
        }
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            self.files.sync_folder(folder)?;
        }
        self.remove_empty_folders(paths);
        Ok(())
    }

    fn location(&self) -> Option<Location> {
        Some(Location::Folder(self.root.clone()))
    }

    fn describe(&self, path: Option<&BlobPath>) -> String {
        match path {
            None => self.root.display().to_string(),
            Some(path) => self.place(path).display().to_string(),
        }
    }
}

/// A file that is being written beside its place.
struct DiskWriter {
    files: Arc<dyn DiskFiles>,
    file: File,
    aside: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl Write for DiskWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.files.write(&self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for DiskWriter {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.files.sync(&self.file)?;
        self.files.link(&self.aside, &self.target)?;
        self.is_done = true;
        self.files.remove(&self.aside)?;
        let folder = self.target.parent().unwrap_or(Path::new("."));
        self.files.sync_folder(folder)
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = self.files.remove(&self.aside);
        }
    }
}
