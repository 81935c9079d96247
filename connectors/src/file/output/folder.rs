//! The folder of a sink: names of files, and the steps on them that a kill cannot halve.

use super::token::Whole;
use crate::encode::Encoding;
use crate::file::policy;
use cenote_engine::port::{PathPolicy, SinkRequest};
use cenote_statestore::{Error, ErrorKind, Result};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Ending of files that wait to be published.
const STAGED: &str = "staged";

/// Ending of rows that wait to be written in a format.
const SPOOL: &str = "spool";

/// A sink's files in its folder.
pub(super) struct Folder {
    path: PathBuf,
    policy: PathPolicy,
    sink: String,
    /// The sink's name in those of files.
    stem: String,
    encoding: Encoding,
}

/// Files of the sink that are there.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Published ones.
    pub(super) published: Vec<PathBuf>,
    /// Others.
    pub(super) staged: Vec<Staged>,
}

/// A file that is not published.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) number: u64,
    pub(super) path: PathBuf,
}

impl Folder {
    /// The folder that a request names.
    ///
    /// # Errors
    /// `Invalid`: it is outside the allowed folders, or no folder.
    pub(super) fn new(path: &str, request: &SinkRequest, encoding: Encoding) -> Result<Folder> {
        policy::admit_folder(Path::new(path), &request.paths)?;
        Ok(Folder {
            path: PathBuf::from(path),
            policy: request.paths.clone(),
            sink: request.name.clone(),
            stem: stem(&request.name),
            encoding,
        })
    }

    /// Makes the folder if it is not there.
    pub(super) fn make(&self) -> Result<()> {
        policy::admit_folder(&self.path, &self.policy)?;
        std::fs::create_dir_all(&self.path).map_err(|error| unwritten(&self.path, error))?;
        // What was made is looked at, as links may have changed in between.
        policy::admit_folder(&self.path, &self.policy)
    }

    /// Where a file is published.
    pub(super) fn published(&self, number: u64) -> PathBuf {
        self.path
            .join(format!("{}-{number:010}.{}", self.stem, self.encoding.ending()))
    }

    /// Where a file waits to be published.
    pub(super) fn staged(&self, number: u64) -> PathBuf {
        let ending = self.encoding.ending();
        self.path.join(format!(".{}-{number:010}.{ending}.{STAGED}", self.stem))
    }

    /// Where the rows of a file wait to be written.
    pub(super) fn spool(&self, number: u64) -> PathBuf {
        self.path.join(format!(".{}-{number:010}.{SPOOL}", self.stem))
    }

    /// What the format is.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The sink's files that are there.
    pub(super) fn list(&self) -> Result<Found> {
        let mut found = Found::default();
        let listed = std::fs::read_dir(&self.path).map_err(|error| unwritten(&self.path, error))?;
        for entry in listed {
            let path = entry.map_err(|error| unwritten(&self.path, error))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            match (name.strip_prefix('.'), self.number(name)) {
                (None, Some((_, ending))) if !ending.contains('.') => found.published.push(path),
                (Some(hidden), _) => {
                    if let Some((number, ending)) = self.number(hidden)
                        && (ending == SPOOL || ending.ends_with(STAGED))
                    {
                        found.staged.push(Staged { number, path });
                    }
                }
                _ => {}
            }
        }
        found.published.sort();
        Ok(found)
    }

    /// The number and the ending in the name of one of the sink's files.
    fn number<'n>(&self, name: &'n str) -> Option<(u64, &'n str)> {
        let rest = name.strip_prefix(self.stem.as_str())?.strip_prefix('-')?;
        let (number, ending) = rest.split_once('.')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((number.parse().ok().filter(|_| is_number)?, ending))
    }

    /// Refuses files of another sink of the name, whose numbers would be given again.
    ///
    /// # Errors
    /// `Conflict` CONN-0019.
    pub(super) fn check_unused(&self, found: &Found) -> Result<()> {
        match found.published.first() {
            None => Ok(()),
            Some(path) => Err(self.taken(path)),
        }
    }

    /// Gives a staged file its name; nothing happens where that was done before.
    ///
    /// # Errors
    /// `Conflict`: another file has the name. `Unavailable`: the operating system failed.
    pub(super) fn publish(&self, whole: &Whole) -> Result<()> {
        let (staged, published) = (self.staged(whole.number), self.published(whole.number));
        if !staged.try_exists().map_err(|error| unwritten(&staged, error))? {
            // Published before; whoever read it may have taken it away.
            return self.remove(&self.spool(whole.number));
        }
        let length = std::fs::metadata(&staged)
            .map_err(|error| unwritten(&staged, error))?
            .len();
        if length != whole.bytes {
            return Err(damaged(&staged, whole.bytes, length));
        }
        if published.try_exists().map_err(|error| unwritten(&published, error))? {
            return Err(self.taken(&published));
        }
        std::fs::rename(&staged, &published).map_err(|error| unwritten(&published, error))?;
        self.remove(&self.spool(whole.number))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritten(path, error)),
            _ => Ok(()),
        }
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync(&self) -> Result<()> {
        let folder = File::open(&self.path).and_then(|folder| folder.sync_all());
        folder.map_err(|error| unwritten(&self.path, error))
    }

    /// CONN-0019: a file that is not this sink's has a name of its.
    fn taken(&self, path: &Path) -> Error {
        let message = format!(
            "cannot write to sink \"{}\": its folder has files of a sink of that name",
            self.sink
        );
        Error::new(ErrorKind::Conflict, "CONN-0019", message)
            .sqlstate("58P02")
            .fact("file", path.display())
            .attempt("write to another folder, move the files away, or choose another name")
    }
}

/// A sink's name as a part of those of files.
fn stem(name: &str) -> String {
    let mut stem = String::new();
    for byte in name.bytes() {
        match byte {
            b'_' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => stem.push(byte as char),
            other => write!(stem, "%{other:02X}").expect("a String takes every write"),
        }
    }
    stem
}

/// CONN-0020: the operating system failed.
pub(super) fn unwritten(path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot write `{}`: {error}", path.display());
    Error::new(ErrorKind::Unavailable, "CONN-0020", message)
        .sqlstate("58030")
        .attempt("free room on the disk, and let the user that the server runs as write there")
        .source(error)
}

/// CONN-0021: a staged file is not as it was left.
pub(super) fn damaged(path: &Path, expected: u64, seen: u64) -> Error {
    let message = format!("cannot go on with `{}`: it is not as it was left", path.display());
    Error::new(ErrorKind::Corrupt, "CONN-0021", message)
        .fact("expected", format!("{expected} bytes"))
        .fact("seen", format!("{seen} bytes"))
        .attempt("put the file back, or DROP the sink and CREATE it again with another folder")
}
