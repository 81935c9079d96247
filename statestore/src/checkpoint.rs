//! Checkpoints of typed tables in a folder or a bucket: written, published, listed, read, verified and collected.
//!
//! # Layout
//! Below the root, which [`Blobs`] keep:
//!
//! | Path | Holds |
//! |---|---|
//! | `server.json` | the identity of the server that owns the folder |
//! | `<id>/manifest.json` | everything in a checkpoint; put in place last, if absent: the one atomic step |
//! | `<id>/<schema>.<table>/<part>.arrow` | rows of some key groups, as an Arrow IPC file |
//! | `savepoints/<name>.json` | the name of a checkpoint that is kept |
//! | `spill/<server>/` | state that left memory ([`crate::spill`]); no checkpoint's, and nothing of it outlives a process |
//!
//! A table is cut into buckets of key groups; a bucket is a list of parts, a base and the changes since. A checkpoint names files
//! of older ones, so what did not change is not written again. `docs/formats/checkpoint.md` has the format field by field.
//!
//! # Rules kept here
//! 1. **Atomic.** Readers see a checkpoint whole or not at all; a crash at any point leaves garbage, never half of one.
//! 2. **Never empty by mistake.** A file that is missing or damaged is an error that names it.
//! 3. **Never repeated.** Ids are new in every folder and every life of a server; nothing is ever overwritten.
//! 4. **Inside.** Nothing outside the root is opened, whatever a manifest says.
//!
//! # Not here
//! When to take a checkpoint, of what, and what to do with one: the engine's. What tables mean: nobody's here.
//!
//! # Source
//! Incremental snapshots that share files, and their collection: Carbone et al., "State Management in Apache Flink", VLDB 2017.

mod blobs;
#[cfg(feature = "object-store")]
mod bucket;
mod columns;
mod disk;
mod document;
mod fault;
mod garbage;
mod held;
mod identity;
mod listing;
mod manifest;
mod names;
mod owner;
mod part;
mod read;
mod repeated;
mod savepoints;
mod store;
mod table;
mod verify;
mod whole;
mod writer;

#[cfg(test)]
mod tests;

pub use blobs::{BlobPath, BlobWriter, Blobs, Found, Location, OpenBlob, Refusal, Refused};
#[cfg(feature = "object-store")]
pub use bucket::Bucket;
#[cfg(feature = "slatedb")]
pub(crate) use bucket::text_of;
pub use columns::{ColumnEntry, TypeEntry};
pub use disk::{DiskFiles, Entry, LocalDisk};
pub use document::FORMAT;
pub use garbage::{Facts, Garbage, InFlight, Keep, Published, garbage};
pub use identity::{CheckpointId, new_server_id};
pub use listing::{Checkpoint, Checkpoints, Depth, Newest};
pub use manifest::{BucketEntry, KeyGroups, Kind, Manifest, PartEntry, PartKind, TableEntry, TableKind, file_name};
pub use part::{DELETED, WEIGHT};
pub use read::TableRows;
pub use repeated::Repeated;
pub use savepoints::Savepoint;
pub use store::{Collected, Store};
pub use table::TableState;
pub use verify::Verified;
pub use writer::{Sealed, TableNumber, Writer};

/// Who owns the folder.
const OWNER: &str = "server.json";

/// The folder of savepoints' names.
const SAVEPOINTS: &str = "savepoints";
