//! Where the state of tables and views is kept: in memory, or in memory as far as it goes and beyond that on disk or in an object
//! store.
//!
//! # Owns
//! Names of state backends, which one an object has, how memory is divided, and opening the stores.
//!
//! # Rules kept here
//! However many stores are open, state has one limit, and their caches share another one evenly.
//!
//! # Not here
//! The stores, and which rows leave memory ([`cenote_statestore::spill`]).

use crate::database::DatabaseConfig;
use cenote_statestore::checkpoint::Location;
use cenote_statestore::spill::{Backend, Budget, Spill};
use cenote_statestore::{Error, ErrorKind, ProcessMemory, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The option of WITH that chooses a backend.
pub(crate) const STATE_BACKEND: &str = "state_backend";

/// Parts of the memory limit that state may take, and the cache of what is on disk; the rest is for everything else.
const STATE_PART: usize = 25;
const CACHE_PART: usize = 10;

/// Without a limit: the part of the machine's memory that state may take.
const MACHINE_PART: usize = 50;

/// The cache of what is on disk without a limit, and the smallest with one.
const CACHE_BYTES: usize = 256 << 20;
const CACHE_BYTES_MIN: usize = 8 << 20;

/// Local disk for what is in an object store, if nothing else is said.
const DISK_BYTES: usize = 10 << 30;

/// Where state is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateBackend {
    /// All in memory.
    #[default]
    Memory,
    /// What memory does not hold is in RocksDB on local disk.
    Rocksdb,
    /// What memory does not hold is in SlateDB, in the object store of checkpoints.
    Object,
}

impl StateBackend {
    /// All of them.
    pub const ALL: [StateBackend; 3] = [StateBackend::Memory, StateBackend::Rocksdb, StateBackend::Object];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StateBackend::Memory => "memory",
            StateBackend::Rocksdb => "rocksdb",
            StateBackend::Object => "object",
        }
    }
}

impl std::str::FromStr for StateBackend {
    type Err = Error;

    fn from_str(name: &str) -> Result<StateBackend> {
        let known = StateBackend::ALL.into_iter().find(|backend| backend.name() == name);
        known.ok_or_else(|| {
            let names = StateBackend::ALL.map(StateBackend::name);
            Error::new(
                ErrorKind::Invalid,
                "SQL-0240",
                format!("there is no state backend \"{name}\""),
            )
            .sqlstate("22023")
            .fact("state backends", names.join(", "))
        })
    }
}

/// The stores of a database.
#[derive(Debug)]
pub(crate) struct StateBackends {
    default: StateBackend,
    /// The server, which no other one is called like.
    server: String,
    /// Folder of what is spilled; `None`: one of the system's temporary folders.
    folder: Option<PathBuf>,
    /// Where checkpoints are, if it was said.
    location: Option<Location>,
    memory_limit: Option<usize>,
    state_memory: Option<usize>,
    disk_bytes: usize,
    opened: Mutex<Option<Opened>>,
}

#[derive(Debug)]
struct Opened {
    budget: Arc<Budget>,
    cache_bytes: usize,
    stores: Vec<(StateBackend, Arc<dyn Backend>)>,
    folder: PathBuf,
    /// Removed with the stores.
    _temporary: Option<Temporary>,
}

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left of it is of no use, and the system removes it some time.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl StateBackends {
    /// # Arguments
    /// - `server`: its name.
    pub(crate) fn new(config: &DatabaseConfig, server: String) -> StateBackends {
        StateBackends {
            default: config.state_backend,
            server,
            folder: config.data_dir.as_ref().map(|dir| dir.join("spill")),
            location: config.checkpoints.as_ref().and_then(|blobs| blobs.location()),
            memory_limit: config.memory_limit,
            state_memory: config.state_memory,
            disk_bytes: config.state_cache.unwrap_or(DISK_BYTES),
            opened: Mutex::default(),
        }
    }

    /// Refuses a default that cannot be.
    ///
    /// # Errors
    /// `Invalid` SQL-0242: it is not said where it is.
    pub(crate) fn check(&self) -> Result<()> {
        match (self.default, &self.location) {
            (StateBackend::Object, None) => Err(no_location()),
            _ => Ok(()),
        }
    }

    /// Where an object's state may go.
    ///
    /// # Arguments
    /// - `chosen`: the backend that it was declared with.
    ///
    /// # Returns
    /// `None`: it stays in memory.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be opened. `Invalid` SQL-0242: it is not said where it is. `Unsupported`: this build has no such
    /// store.
    pub(crate) fn spill(&self, chosen: Option<StateBackend>) -> Result<Option<Spill>> {
        let backend = chosen.unwrap_or(self.default);
        if backend == StateBackend::Memory {
            return Ok(None);
        }
        let mut opened = self.opened.lock();
        let opened = opened.get_or_insert_with(|| self.begin());
        let known = opened.stores.iter().find(|(of, _)| *of == backend);
        let store = match known.map(|(_, store)| store.clone()) {
            Some(store) => store,
            None => self.open(opened, backend)?,
        };
        let budget = opened.budget.clone();
        Ok(Some(Spill { backend: store, budget }))
    }

    /// Ends all stores: what they hold is gone, and nothing reads or writes state any more.
    pub(crate) fn close(&self) {
        let opened = self.opened.lock().take();
        for (_, store) in opened.iter().flat_map(|opened| &opened.stores) {
            store.close();
        }
    }

    fn begin(&self) -> Opened {
        let (folder, temporary) = match &self.folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let folder = std::env::temp_dir().join(format!("cenote-spill-{}", std::process::id()));
                (folder.clone(), Some(Temporary(folder)))
            }
        };
        // What an earlier start left, of whatever store. A store whose folder cannot be emptied says so.
        let _ = std::fs::remove_dir_all(&folder);
        let (state, cache_bytes) = self.memory();
        Opened {
            budget: Arc::new(Budget::new(state).within(ProcessMemory::new(self.memory_limit))),
            cache_bytes,
            stores: Vec::new(),
            folder,
            _temporary: temporary,
        }
    }

    fn open(&self, opened: &mut Opened, backend: StateBackend) -> Result<Arc<dyn Backend>> {
        let share = opened.cache_bytes / (opened.stores.len() + 1);
        let store = match backend {
            StateBackend::Object => self.open_object(&opened.folder.join("cache"), share)?,
            _ => open_rocksdb(&opened.folder.join("rocksdb"), share)?,
        };
        opened.stores.iter().for_each(|(_, other)| other.limit_cache(share));
        opened.stores.push((backend, store.clone()));
        Ok(store)
    }

    #[cfg(feature = "slatedb")]
    fn open_object(&self, folder: &Path, cache_bytes: usize) -> Result<Arc<dyn Backend>> {
        let location = self.location.as_ref().ok_or_else(no_location)?;
        let memory = cenote_statestore::spill::ObjectMemory {
            cache_bytes,
            disk_bytes: self.disk_bytes,
        };
        let store = cenote_statestore::spill::Objects::open(location, &self.server, folder, memory)?;
        Ok(Arc::new(store))
    }

    #[cfg(not(feature = "slatedb"))]
    fn open_object(&self, _: &Path, _: usize) -> Result<Arc<dyn Backend>> {
        let _ = (&self.location, &self.server, self.disk_bytes);
        Err(not_built(StateBackend::Object, "slatedb"))
    }

    /// Bytes for state, and for the cache of what is on disk.
    fn memory(&self) -> (usize, usize) {
        let (state, cache) = match self.memory_limit {
            Some(limit) => (
                limit / 100 * STATE_PART,
                (limit / 100 * CACHE_PART).max(CACHE_BYTES_MIN),
            ),
            None => (machine_memory() / 100 * MACHINE_PART, CACHE_BYTES),
        };
        (self.state_memory.unwrap_or(state), cache)
    }
}

#[cfg(feature = "rocksdb")]
fn open_rocksdb(folder: &Path, cache_bytes: usize) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(cenote_statestore::spill::Rocks::open(folder, cache_bytes)?))
}

#[cfg(not(feature = "rocksdb"))]
fn open_rocksdb(_: &Path, _: usize) -> Result<Arc<dyn Backend>> {
    Err(not_built(StateBackend::Rocksdb, "rocksdb"))
}

#[cfg(not(all(feature = "rocksdb", feature = "slatedb")))]
fn not_built(backend: StateBackend, feature: &str) -> Error {
    let message = format!("this build of Cenote has no state backend \"{}\"", backend.name());
    Error::new(ErrorKind::Unsupported, "SQL-0241", message).attempt(format!("build with the feature `{feature}`"))
}

fn no_location() -> Error {
    let message = "cannot keep state with the backend \"object\": it is not said in which object store";
    Error::new(ErrorKind::Invalid, "SQL-0242", message)
        .sqlstate("55000")
        .attempt("start the server with --checkpoint-url, such as s3://bucket/prefix or file:///a/folder: state that leaves memory goes there, too")
}

/// Bytes of memory that the process may use at most, as the system has it: of the machine, or of its control group.
fn machine_memory() -> usize {
    let of_group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let of_group = of_group.and_then(|text| text.trim().parse::<usize>().ok());
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<usize>().ok()
    });
    let of_machine = of_machine.map_or(4 << 30, |kilobytes| kilobytes * 1024);
    of_group.map_or(of_machine, |of_group| of_group.min(of_machine))
}
