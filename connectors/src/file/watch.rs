//! What changed in a folder, as the operating system tells it.

use super::location::Location;
use cenote_statestore::{Error, ErrorKind, Result};
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Changed paths kept apart; with more of them everything is looked at.
const PATHS_MAX: usize = 4096;

/// What happened since it was last asked.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Files that were written, created or renamed.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Whether anything may have changed.
    pub(crate) everything: bool,
    stopped: bool,
    error: Option<String>,
}

/// Where changes are collected, and waited for.
#[derive(Default)]
pub(crate) struct Signal {
    changes: Mutex<Changes>,
    arrived: Condvar,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Changes)) {
        note(&mut self.lock());
        self.arrived.notify_one();
    }

    /// Ends every wait.
    pub(crate) fn stop(&self) {
        self.note(|changes| changes.stopped = true);
    }

    /// Asks for everything to be looked at.
    pub(crate) fn look_everywhere(&self) {
        self.note(|changes| changes.everything = true);
    }

    /// Waits for changes and takes them; `None` once stopped.
    ///
    /// # Errors
    /// `Unavailable` CONN-0011: notifications have failed.
    pub(crate) fn wait(&self) -> Result<Option<Changes>> {
        let mut changes = self.lock();
        loop {
            if changes.stopped {
                return Ok(None);
            }
            if let Some(reason) = changes.error.take() {
                return Err(unwatched(&reason));
            }
            if changes.everything || !changes.paths.is_empty() {
                return Ok(Some(std::mem::take(&mut *changes)));
            }
            changes = self.arrived.wait(changes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A watch over the files of a location.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    /// The folder watched, resolved, and as the location names it.
    real: PathBuf,
    shown: PathBuf,
    deep: bool,
    /// Files elsewhere that links lead to: resolved, and as the location names them.
    links: HashMap<PathBuf, PathBuf>,
}

impl Watch {
    /// Starts to watch. `whole`: a file counts as changed only when its writer has closed it.
    ///
    /// # Errors
    /// `Unavailable` CONN-0011: the operating system refuses.
    pub(crate) fn start(location: &Location, whole: bool, signal: &Arc<Signal>) -> Result<Watch> {
        let (shown, deep) = location.watched();
        let root = if shown.as_os_str().is_empty() {
            Path::new(".")
        } else {
            shown.as_path()
        };
        let real = root.canonicalize()?;
        let names = names_of(location);
        let signal = Arc::clone(signal);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) => collect(&signal, &names, whole, event),
            Err(error) => signal.note(|changes| changes.error = Some(error.to_string())),
        })
        .map_err(|error| unwatched(&error.to_string()))?;
        let mode = if deep {
            RecursiveMode::Recursive
        } else {
            RecursiveMode::NonRecursive
        };
        watcher
            .watch(&real, mode)
            .map_err(|error| unwatched(&error.to_string()))?;
        Ok(Watch {
            watcher,
            real,
            shown,
            deep,
            links: HashMap::new(),
        })
    }

    /// The path of a change as the location names it.
    pub(crate) fn shown(&self, changed: &Path) -> Option<PathBuf> {
        let below = changed.strip_prefix(&self.real).ok().map(|rest| self.shown.join(rest));
        self.links.get(changed).cloned().or(below)
    }

    /// Watches a folder that has appeared in the one watched, so that what is listed from now on is not missed.
    pub(crate) fn add_folder(&mut self, changed: &Path) {
        if self.deep
            && let Err(error) = self.watcher.watch(changed, RecursiveMode::Recursive)
        {
            // It can be gone again.
            tracing::debug!(folder = %changed.display(), "cannot watch folder: {error}");
        }
    }

    /// Watches the folders there are now, when some can have been missed.
    pub(crate) fn renew(&mut self) {
        let real = self.real.clone();
        self.add_folder(&real);
    }

    /// Watches a file that a link leads out of the folder to.
    ///
    /// # Errors
    /// `Unavailable` CONN-0011: the operating system refuses.
    pub(crate) fn add_link(&mut self, path: &Path) -> Result<()> {
        let Ok(real) = path.canonicalize() else {
            return Ok(());
        };
        let seen = if self.deep {
            real.starts_with(&self.real)
        } else {
            real.parent() == Some(&self.real)
        };
        let own_name = self.shown(&real).is_some_and(|shown| shown == path);
        if (seen && own_name) || self.links.contains_key(&real) {
            return Ok(());
        }
        self.watcher
            .watch(&real, RecursiveMode::NonRecursive)
            .map_err(|error| unwatched(&error.to_string()))?;
        self.links.insert(real, path.to_path_buf());
        Ok(())
    }
}

/// The file names that matter; empty: all.
fn names_of(location: &Location) -> Vec<OsString> {
    let Location::File(path) = location else {
        return Vec::new();
    };
    let real = path.canonicalize().ok();
    [Some(path), real.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|path| path.file_name())
        .map(OsString::from)
        .collect()
}

fn collect(signal: &Signal, names: &[OsString], whole: bool, event: Event) {
    if event.need_rescan() {
        return signal.look_everywhere();
    }
    let counts = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => true,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) | EventKind::Create(_) => !whole,
        _ => false,
    };
    let matters =
        |path: &PathBuf| names.is_empty() || path.file_name().is_some_and(|name| names.iter().any(|n| n == name));
    let paths: Vec<PathBuf> = event.paths.into_iter().filter(matters).collect();
    if !counts || paths.is_empty() {
        return;
    }
    signal.note(|changes| {
        changes.paths.extend(paths);
        if changes.paths.len() > PATHS_MAX {
            changes.paths.clear();
            changes.everything = true;
        }
    });
}

/// CONN-0011: files cannot be watched.
pub(super) fn unwatched(reason: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "CONN-0011",
        format!("cannot watch files: {reason}"),
    )
    .sqlstate("58030")
    .attempt("raise fs.inotify.max_user_watches, or follow fewer folders")
}
