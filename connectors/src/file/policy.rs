//! Which files may be opened, and opening them.
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
        Ok(_) => Err(outside(path, folders)),
        // What is not there is said only of places that may be looked at.
        Err(error) => match existing_ancestor(path) {
            Some(ancestor) if inside(&ancestor) => Err(missing(path, &error)),
            _ => Err(outside(path, folders)),
        },
    }
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
        return Err(outside(path, folders));
    }
    Ok(file)
}

fn outside(path: &Path, folders: &[PathBuf]) -> Error {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let problem = format!(
        "cannot read `{}`: it is outside the folders that this server may read",
        path.display()
    );
    Error::new(ErrorKind::Invalid, "CONN-0005", problem)
        .sqlstate("42501")
        .fact("allowed", folders.join(", "))
        .attempt("move the file there, or start the server with --allow-path for its folder")
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
