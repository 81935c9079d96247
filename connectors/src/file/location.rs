//! What the option `path` means: a file, a folder or a glob; and the files it leads to.

use super::policy::{admit, unreadable};
use cenote_engine::port::PathPolicy;
use cenote_statestore::{Error, ErrorKind, Result};
use glob::{MatchOptions, Pattern};
use std::path::{Component, Path, PathBuf};

const MATCH: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Where files are.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// One file.
    File(PathBuf),
    /// The files of a folder, not of its folders.
    Folder(PathBuf),
    /// The files that a pattern matches.
    Glob {
        /// The pattern.
        pattern: Pattern,
        /// The folder before its first wildcard.
        base: PathBuf,
    },
}

impl Location {
    /// Finds out what `path` means, looking at what is there.
    ///
    /// # Errors
    /// `Invalid`: nothing is there, it is outside the allowed folders, or the glob is not one.
    pub(crate) fn new(path: &str, policy: &PathPolicy) -> Result<Location> {
        let literal = Path::new(path);
        let wild = path.contains(['*', '?', '[']);
        if path.is_empty() || path.contains('\0') {
            return Err(unreadable(literal, "the path is empty or has a NUL character").sqlstate("22023"));
        }
        if !wild || literal.exists() {
            let real = admit(literal, policy)?;
            return Ok(match real.is_dir() {
                true => Location::Folder(literal.to_path_buf()),
                false => Location::File(literal.to_path_buf()),
            });
        }
        // As the file system names what matches: without `.` and doubled slashes.
        let literal: PathBuf = literal.components().filter(|part| *part != Component::CurDir).collect();
        let literal = literal.as_path();
        let base = fixed_part(literal);
        admit(
            if base.as_os_str().is_empty() {
                Path::new(".")
            } else {
                &base
            },
            policy,
        )?;
        let after = literal.strip_prefix(&base).unwrap_or(literal);
        if after.components().any(|part| part == Component::ParentDir) {
            return Err(unreadable(literal, "a glob must not have `..` after a wildcard").sqlstate("22023"));
        }
        let pattern = Pattern::new(&literal.to_string_lossy())
            .map_err(|error| unreadable(literal, &format!("the glob is not valid: {error}")).sqlstate("22023"))?;
        Ok(Location::Glob { pattern, base })
    }

    /// The files there now, sorted by path.
    ///
    /// # Errors
    /// `Unavailable`: a folder cannot be listed.
    pub(crate) fn list(&self) -> Result<Vec<PathBuf>> {
        let mut files = match self {
            Location::File(path) => vec![path.clone()],
            Location::Folder(folder) => folder_files(folder)?,
            Location::Glob { pattern, .. } => glob_files(pattern.as_str())?,
        };
        files.sort();
        Ok(files)
    }

    /// Whether a path that has appeared is one of the files.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        match self {
            Location::File(file) => file == path,
            Location::Folder(folder) => path.parent() == Some(folder) && !is_hidden(path) && path.is_file(),
            Location::Glob { pattern, .. } => pattern.matches_path_with(path, MATCH) && path.is_file(),
        }
    }

    /// The folder to watch (empty: the working directory), and whether also the folders in it.
    pub(crate) fn watched(&self) -> (PathBuf, bool) {
        match self {
            Location::File(path) => (path.parent().map(Path::to_path_buf).unwrap_or_default(), false),
            Location::Folder(folder) => (folder.clone(), false),
            Location::Glob { pattern, base } => {
                let parts = Path::new(pattern.as_str())
                    .strip_prefix(base)
                    .map_or(1, |rest| rest.components().count());
                (base.clone(), parts > 1)
            }
        }
    }
}

/// The folders of a glob before its first wildcard.
fn fixed_part(pattern: &Path) -> PathBuf {
    let parent = pattern.parent().unwrap_or(Path::new(""));
    parent
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']))
        .collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn folder_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unlisted(folder, &error))? {
        let path = folder.join(entry.map_err(|error| unlisted(folder, &error))?.file_name());
        if !is_hidden(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn glob_files(pattern: &str) -> Result<Vec<PathBuf>> {
    let paths = glob::glob_with(pattern, MATCH).map_err(|error| unreadable(Path::new(pattern), &error.to_string()))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| unlisted(error.path(), error.error()))?;
        if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// CONN-0015: a folder whose files cannot be listed.
pub(super) fn unlisted(folder: &Path, error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "CONN-0015",
        format!("cannot list folder `{}`: {error}", folder.display()),
    )
    .sqlstate("58030")
    .attempt("let the user that the server runs as read the folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, name: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    fn names(location: &Location, folder: &Path) -> Vec<String> {
        let files = location.list().unwrap();
        files
            .iter()
            .map(|path| path.strip_prefix(folder).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn a_folder_gives_its_own_files_sorted_and_no_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.json", "a.json", ".hidden", "sub/c.json"] {
            touch(folder.path(), name);
        }
        let location = Location::new(folder.path().to_str().unwrap(), &PathPolicy::Any).unwrap();
        assert_eq!(names(&location, folder.path()), ["a.json", "b.json"]);
        assert!(location.takes(&folder.path().join("a.json")));
        assert!(!location.takes(&folder.path().join(".hidden")));
        assert!(!location.takes(&folder.path().join("sub/c.json")));
        assert_eq!(location.watched(), (folder.path().to_path_buf(), false));
    }

    #[test]
    fn a_glob_matches_inside_its_folders_and_watches_as_deep_as_it_reaches() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x/2.json", "x/1.json", "y/1.json", "y/.1.json", "y/1.csv", "top.json"] {
            touch(folder.path(), name);
        }
        let path = folder.path().join("*/*.json");
        let location = Location::new(path.to_str().unwrap(), &PathPolicy::Any).unwrap();
        assert_eq!(names(&location, folder.path()), ["x/1.json", "x/2.json", "y/1.json"]);
        assert_eq!(location.watched(), (folder.path().to_path_buf(), true));
        let path = folder.path().join("*.json");
        let location = Location::new(path.to_str().unwrap(), &PathPolicy::Any).unwrap();
        assert_eq!(names(&location, folder.path()), ["top.json"]);
        assert_eq!(location.watched(), (folder.path().to_path_buf(), false));
    }

    #[test]
    fn a_file_whose_name_looks_like_a_glob_is_that_file() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), "data[1].json");
        let path = folder.path().join("data[1].json");
        assert!(matches!(
            Location::new(path.to_str().unwrap(), &PathPolicy::Any),
            Ok(Location::File(_))
        ));
    }
}
