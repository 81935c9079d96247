//! Following files: what is there, then what is appended and what appears.
//!
//! # Rules kept here
//! 1. The watch begins before the first look, so nothing falls between.
//! 2. A file is opened when it has changed and closed when its whole lines were read: what waits is a place in
//!    a table, not an open file.
//! 3. A renamed file keeps its partition. A new file under a name taken by another partition gets the
//!    partition `path#device:inode`.
//! 4. A file that was cut short or replaced under its name (a log that was rotated) is a new file from then on. What was
//!    left to read of the one that it replaced is read first, if that is still in the folder.

use super::bounded::settle;
use super::identity::{self, Identity};
use super::policy;
use super::read::{Reader, Task};
use super::settings::Format;
use super::sink::Sink;
use super::watch::{Changes, Signal, Watch};
use super::{FileSource, partition_name};
use cenote_engine::port::{PartitionOffset, PathPolicy, SourceOutput, StopToken};
use cenote_statestore::Result;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file being followed.
struct Known {
    path: PathBuf,
    offset: Option<PartitionOffset>,
}

/// What news of a file means.
#[derive(Clone, Copy)]
enum Rule {
    /// It can have more lines.
    Lines,
    /// It was read whole or not at all; `written`: its writer has just closed it.
    Whole { written: bool },
}

/// The files being followed, by partition, and which partition a path is.
#[derive(Default)]
struct Files {
    known: BTreeMap<String, Known>,
    by_path: HashMap<PathBuf, String>,
}

/// Reads until told to stop.
pub(crate) fn follow(source: &FileSource, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<()> {
    let signal = Arc::new(Signal::default());
    let waker = Arc::clone(&signal);
    stop.on_stop(move || waker.stop());
    let whole = source.settings.format == Format::Parquet;
    let mut watch = Watch::start(&source.location, whole, &signal)?;
    let mut sink = Sink::new(&source.request, &source.settings, output)?;
    let mut reader = Reader::new(&source.request, &source.settings, stop);
    let mut files = Files::resumed(source);
    signal.look_everywhere();
    while let Some(changes) = signal.wait()? {
        let (changed, named) = changed_files(source, &mut watch, changes)?;
        for path in files.adopt(&changed, &source.request.paths) {
            watch.add_link(&path)?;
        }
        let rule = if whole {
            Rule::Whole { written: named }
        } else {
            Rule::Lines
        };
        for path in &changed {
            if !files.read(path, &mut reader, &mut sink, rule)? {
                return Ok(());
            }
        }
        sink.flush()?;
    }
    Ok(())
}

/// The files of the location that may have changed, and whether they are known to have been written.
fn changed_files(source: &FileSource, watch: &mut Watch, changes: Changes) -> Result<(BTreeSet<PathBuf>, bool)> {
    if changes.everything {
        watch.renew();
        return Ok((source.location.list()?.into_iter().collect(), false));
    }
    let mut changed = BTreeSet::new();
    let mut folders = changes.paths.iter().filter(|path| path.is_dir()).peekable();
    if folders.peek().is_some() {
        // A folder that has appeared can have files in it already.
        folders.for_each(|folder| watch.add_folder(folder));
        return Ok((source.location.list()?.into_iter().collect(), false));
    }
    for path in changes.paths.iter().filter_map(|path| watch.shown(path)) {
        if source.location.takes(&path) {
            changed.insert(path);
        }
    }
    Ok((changed, true))
}

impl Files {
    /// The files of stored offsets, at the paths that they had.
    fn resumed(source: &FileSource) -> Files {
        let known = source.request.offsets.iter().map(|(partition, offset)| {
            (
                partition.clone(),
                Known {
                    path: PathBuf::from(partition),
                    offset: Some(offset.clone()),
                },
            )
        });
        Files {
            known: known.collect(),
            by_path: HashMap::new(),
        }
    }

    /// Gives each path that is new a partition: its own from before, that of a file renamed, or a new one.
    ///
    /// # Returns
    /// The new paths.
    fn adopt(&mut self, paths: &BTreeSet<PathBuf>, policy: &PathPolicy) -> Vec<PathBuf> {
        let new: Vec<PathBuf> = paths
            .iter()
            .filter(|path| !self.by_path.contains_key(*path))
            .cloned()
            .collect();
        let mut strange = Vec::new();
        for path in &new {
            let name = partition_name(path);
            let own = self
                .known
                .get(&name)
                .is_some_and(|known| &known.path == path && known.begins(path, policy));
            if own {
                self.by_path.insert(path.clone(), name);
            } else {
                strange.push(path);
            }
        }
        if strange.is_empty() {
            return new;
        }
        // Renamed files are found before new ones take their names.
        let places = self.places();
        strange.retain(|path| !self.adopt_renamed(path, &places, policy));
        for path in strange {
            self.adopt_new(path);
        }
        new
    }

    /// Where on disk each known file is, by device and inode.
    fn places(&self) -> HashMap<String, String> {
        let identities = self
            .known
            .iter()
            .filter_map(|(name, known)| Some((known.identity()?.place(), name.clone())));
        identities.collect()
    }

    fn adopt_renamed(&mut self, path: &Path, places: &HashMap<String, String>, policy: &PathPolicy) -> bool {
        let Some(partition) = place(path).and_then(|place| places.get(&place)) else {
            return false;
        };
        let Some(known) = self.known.get_mut(partition) else {
            return false;
        };
        if place(&known.path) == place(path) || !known.begins(path, policy) {
            return false;
        }
        // Another file may have come to its old path, and been adopted there.
        if self.by_path.get(&known.path) == Some(partition) {
            self.by_path.remove(&known.path);
        }
        known.path = path.to_path_buf();
        self.by_path.insert(path.to_path_buf(), partition.clone());
        true
    }

    fn adopt_new(&mut self, path: &Path) {
        let name = partition_name(path);
        let taken = self.known.get(&name).is_some_and(|known| known.path != path);
        let partition = if taken {
            format!("{name}#{}", place(path).unwrap_or_default())
        } else {
            name
        };
        let fresh = || Known {
            path: path.to_path_buf(),
            offset: None,
        };
        self.known.entry(partition.clone()).or_insert_with(fresh).path = path.to_path_buf();
        self.by_path.insert(path.to_path_buf(), partition);
    }

    /// Reads what is new under a path; `false` if told to stop.
    fn read(&mut self, path: &Path, reader: &mut Reader<'_>, sink: &mut Sink<'_>, rule: Rule) -> Result<bool> {
        let known = self.by_path.get(path).and_then(|partition| self.known.get(partition));
        if matches!(rule, Rule::Lines) && known.is_some_and(|known| known.is_replaced(path, &reader.request().paths)) {
            if let Some(moved) = known.and_then(|known| known.moved_to(path))
                && !self.read_moved(path, &moved, reader, sink)?
            {
                return Ok(false);
            }
            self.replace(path);
        }
        self.read_known(path, reader, sink, rule)
    }

    /// Reads what is left of a file that has gone from a path to another one, which nobody asked for.
    fn read_moved(&mut self, path: &Path, moved: &Path, reader: &mut Reader<'_>, sink: &mut Sink<'_>) -> Result<bool> {
        let Some(partition) = self.by_path.get(path).cloned() else {
            return Ok(true);
        };
        self.by_path.insert(moved.to_path_buf(), partition);
        let go_on = self.read_known(moved, reader, sink, Rule::Lines);
        self.by_path.remove(moved);
        go_on
    }

    /// Gives a path a partition of its own, to be read from its beginning.
    fn replace(&mut self, path: &Path) {
        let name = format!("{}#{}", partition_name(path), place(path).unwrap_or_default());
        let mut partition = name.clone();
        for number in 2.. {
            if !self.known.contains_key(&partition) {
                break;
            }
            partition = format!("{name}.{number:06}");
        }
        tracing::warn!("{}: cut short or replaced; it is read as a new file", path.display());
        let fresh = Known {
            path: path.to_path_buf(),
            offset: None,
        };
        self.known.insert(partition.clone(), fresh);
        self.by_path.insert(path.to_path_buf(), partition);
    }

    /// Reads what is new in a file; `false` if told to stop.
    fn read_known(&mut self, path: &Path, reader: &mut Reader<'_>, sink: &mut Sink<'_>, rule: Rule) -> Result<bool> {
        let Some(partition) = self.by_path.get(path) else {
            return Ok(true);
        };
        let Some(known) = self.known.get_mut(partition) else {
            return Ok(true);
        };
        let done = known.offset.as_ref().is_some_and(|offset| offset.done);
        let rewritten = matches!(rule, Rule::Whole { written: true });
        if (done && !rewritten) || !path.exists() {
            return Ok(true);
        }
        // A whole file that gave nothing was perhaps read before it was finished.
        let offset = known
            .offset
            .as_ref()
            .filter(|offset| !(offset.done && offset.position == 0));
        let task = Task {
            partition,
            path,
            offset,
            until: None,
            follow: matches!(rule, Rule::Lines),
        };
        let outcome = reader.read(&task, sink);
        let go_on = settle(outcome, &task, sink)?;
        if let Some(reached) = sink.latest(partition).cloned() {
            known.offset = Some(reached);
        }
        if let (true, Rule::Whole { .. }, Some(offset)) = (go_on, rule, &mut known.offset) {
            offset.done = true;
            sink.reached(partition, offset.clone());
        }
        Ok(go_on)
    }
}

impl Known {
    fn identity(&self) -> Option<Identity> {
        Identity::parse(&self.offset.as_ref()?.identity)
    }

    /// Whether the file at `path`, where this one was, is another one now.
    fn is_replaced(&self, path: &Path, policy: &PathPolicy) -> bool {
        let Some(offset) = self.offset.as_ref().filter(|offset| offset.position > 0) else {
            return false;
        };
        match path.metadata() {
            Ok(metadata) => metadata.len() < offset.position || !self.begins(path, policy),
            Err(_) => false,
        }
    }

    /// Where in the folder of `path` this file is now, if it is there under another name.
    fn moved_to(&self, path: &Path) -> Option<PathBuf> {
        let own = self.identity()?.place();
        let beside = path.parent()?.read_dir().ok()?.flatten().map(|entry| entry.path());
        let mut moved = beside.filter(|beside| beside != path && place(beside).as_deref() == Some(own.as_str()));
        moved.next()
    }

    /// Whether the file at `path` begins as this one, as far as it was read.
    fn begins(&self, path: &Path, policy: &PathPolicy) -> bool {
        let Some(identity) = self.identity() else {
            return true;
        };
        policy::open(path, policy).is_ok_and(|file| identity.fits(&file).unwrap_or(false))
    }
}

/// Device and inode of the file at `path`; `None` if there is none.
fn place(path: &Path) -> Option<String> {
    path.metadata().ok().map(|metadata| identity::place(&metadata))
}
