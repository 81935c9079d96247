//! Which files may be opened, and opening them; and which folders may be written to.
//!
//! A path is resolved (`..` and symbolic links) before anything is opened, and what was opened is looked at
//! again, so that a link that is changed in between leads nowhere. Only regular files are opened: opening a
//! pipe or device can wait for ever.

use cenote_engine::port::PathPolicy;
use cenote_statestore::{Error, ErrorKind, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The real path of a file that may be read.
///
/// # Errors
/// `Invalid`: CONN-0005 (SQLSTATE 42501) outside the allowed folders, CONN-0006 (58P01) if nothing is there.
pub(crate) fn admit(path: &Path, policy: &PathPolicy) -> Result<PathBuf> {
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(unreadable(path, "the path has a NUL character").sqlstate("22023"));
    }
    let real = path.canonicalize();
    let PathPolicy::Below(folders) = policy else {
        return real.map_err(|error| missing(path, &error));
    };
    let allowed: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let inside = |real: &Path| allowed.iter().any(|folder| real.starts_with(folder));
    match real {
        Ok(real) if inside(&real) => Ok(real),
        Ok(_) => Err(outside(path, folders, "read")),
        // What is not there is said only of places that may be looked at.
        Err(error) => match existing_ancestor(path) {
            Some(ancestor) if inside(&ancestor) => Err(missing(path, &error)),
            _ => Err(outside(path, folders, "read")),
        },
    }
}

/// The real path of a folder that files may be written to; it need not be there yet.
///
/// # Errors
/// `Invalid`: CONN-0005 (SQLSTATE 42501) outside the allowed folders, CONN-0006 (58P01) if it cannot be a folder.
pub(super) fn admit_folder(path: &Path, policy: &PathPolicy) -> Result<()> {
    if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().contains(&0) {
        let problem = format!(
            "cannot write to `{}`: the path is empty or has a NUL character",
            path.display()
        );
        return Err(Error::new(ErrorKind::Invalid, "CONN-0006", problem).sqlstate("22023"));
    }
    let real = path.canonicalize().ok();
    if let PathPolicy::Below(folders) = policy {
        let allowed: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let nearest = real.clone().or_else(|| existing_ancestor(path));
        // What is to be made must be made where it is said, not where `..` leads to once it is there.
        let climbs = real.is_none() && path.components().any(|part| part == std::path::Component::ParentDir);
        if climbs || !nearest.is_some_and(|real| allowed.iter().any(|folder| real.starts_with(folder))) {
            return Err(outside(path, folders, "write to"));
        }
    }
    if real.is_some_and(|real| !real.is_dir()) {
        let problem = format!("cannot write to `{}`: it is not a folder", path.display());
        let error = Error::new(ErrorKind::Invalid, "CONN-0006", problem).sqlstate("58P01");
        return Err(error.attempt("give the path of a folder, which is made if it is not there"));
    }
    Ok(())
}

fn existing_ancestor(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute
        .ancestors()
        .skip(1)
        .find_map(|ancestor| ancestor.canonicalize().ok())
}

/// Opens a regular file that may be read.
///
/// # Errors
/// As [`admit`]; also if it is not a regular file or cannot be opened.
pub(crate) fn open(path: &Path, policy: &PathPolicy) -> Result<File> {
    let real = admit(path, policy)?;
    let regular = std::fs::metadata(&real)
        .map_err(|error| missing(path, &error))?
        .is_file();
    if !regular {
        return Err(unreadable(path, "it is not a regular file"));
    }
    let file = File::open(&real).map_err(|error| missing(path, &error))?;
    if let PathPolicy::Below(folders) = policy
        && let Ok(opened) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        && opened != real
    {
        return Err(outside(path, folders, "read"));
    }
    Ok(file)
}

/// CONN-0005; `verb` says what was to be done there.
fn outside(path: &Path, folders: &[PathBuf], verb: &str) -> Error {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let problem = format!(
        "cannot {verb} `{}`: it is outside the folders that this server may {verb}",
        path.display()
    );
    let attempt = match verb {
        "read" => "move the file there, or start the server with --allow-path for its folder",
        _ => "give a folder below them, or start the server with --allow-path for it",
    };
    Error::new(ErrorKind::Invalid, "CONN-0005", problem)
        .sqlstate("42501")
        .fact("allowed", folders.join(", "))
        .attempt(attempt)
}

fn missing(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => unreadable(path, "no such file or folder").sqlstate("58P01"),
        std::io::ErrorKind::PermissionDenied => unreadable(path, "permission denied").sqlstate("42501"),
        _ => unreadable(path, &error.to_string()).sqlstate("58030"),
    }
}

/// CONN-0006: a path that leads to nothing that can be read.
pub(crate) fn unreadable(path: &Path, reason: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "CONN-0006",
        format!("cannot read `{}`: {reason}", path.display()),
    )
    .sqlstate("58P01")
    .attempt("check the path and who may read it")
}
