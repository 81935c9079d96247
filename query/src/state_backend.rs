//! Where the state of tables and views is kept: in memory, or in memory as far as it goes and beyond that on disk.
//!
//! # Owns
//! Names of state backends, which one an object has, how memory is divided, and opening the stores.
//!
//! # Not here
//! The stores, and which rows leave memory ([`cenote_statestore::spill`]).

use crate::database::DatabaseConfig;
use cenote_statestore::spill::{Backend, Spill};
use cenote_statestore::{Error, ErrorKind, ProcessMemory, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
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

/// Where state is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateBackend {
    /// All in memory.
    #[default]
    Memory,
    /// What memory does not hold is in RocksDB on local disk.
    Rocksdb,
}

impl StateBackend {
    /// All of them.
    pub const ALL: [StateBackend; 2] = [StateBackend::Memory, StateBackend::Rocksdb];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StateBackend::Memory => "memory",
            StateBackend::Rocksdb => "rocksdb",
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
    /// Folder of what is spilled; `None`: one of the system's temporary folders.
    folder: Option<PathBuf>,
    memory_limit: Option<usize>,
    state_memory: Option<usize>,
    opened: Mutex<Option<Opened>>,
}

#[derive(Debug)]
struct Opened {
    spill: Spill,
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
    pub(crate) fn new(config: &DatabaseConfig) -> StateBackends {
        StateBackends {
            default: config.state_backend,
            folder: config.data_dir.as_ref().map(|dir| dir.join("spill")),
            memory_limit: config.memory_limit,
            state_memory: config.state_memory,
            opened: Mutex::default(),
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
    /// `Unavailable`: the store cannot be opened. `Unsupported`: this build has no such store.
    pub(crate) fn spill(&self, chosen: Option<StateBackend>) -> Result<Option<Spill>> {
        match chosen.unwrap_or(self.default) {
            StateBackend::Memory => Ok(None),
            StateBackend::Rocksdb => self.rocksdb().map(Some),
        }
    }

    fn rocksdb(&self) -> Result<Spill> {
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(opened.spill.clone());
        }
        let (folder, temporary) = match &self.folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let folder = std::env::temp_dir().join(format!("cenote-spill-{}", std::process::id()));
                (folder.clone(), Some(Temporary(folder)))
            }
        };
        let (state, cache) = self.memory();
        let store = open_rocksdb(&folder, cache)?;
        let spill = Spill::within(store, state, ProcessMemory::new(self.memory_limit));
        *opened = Some(Opened {
            spill: spill.clone(),
            _temporary: temporary,
        });
        Ok(spill)
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
fn open_rocksdb(folder: &std::path::Path, cache: usize) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(cenote_statestore::spill::Rocks::open(folder, cache)?))
}

#[cfg(not(feature = "rocksdb"))]
fn open_rocksdb(_: &std::path::Path, _: usize) -> Result<Arc<dyn Backend>> {
    let message = "this build of Cenote has no state backend \"rocksdb\"";
    Err(Error::new(ErrorKind::Unsupported, "SQL-0241", message).attempt("build with the feature `rocksdb`"))
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
