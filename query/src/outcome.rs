//! What a statement gives back, the same for every door.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Epoch, Error, Result};
use futures::stream::BoxStream;

/// Batches of a result, produced while the client takes them.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// What one statement gave.
pub enum Outcome {
    /// A result set.
    Rows(Rows),
    /// A statement without a result set; `tag` is PostgreSQL's command tag (`INSERT 0 2`).
    Command {
        /// The command tag.
        tag: String,
        /// Messages for the user, in PostgreSQL's severity `NOTICE`.
        notices: Vec<String>,
    },
    /// `COPY ... FROM STDIN`: the client now sends data.
    CopyIn(Box<dyn CopyIn>),
    /// An empty statement (`;`, only comments).
    Empty,
}

/// A result set that streams.
pub struct Rows {
    /// Columns in order, named as PostgreSQL names them. Logical types are PostgreSQL's: a field's metadata
    /// key `cenote.type` overrides what its Arrow type implies (`jsonb`, `uuid`, `regclass` ...).
    pub schema: SchemaRef,
    /// The rows. A subscription never ends by itself.
    pub batches: BatchStream,
    /// The epoch the rows were read at; `None` where no table was read.
    pub epoch: Option<Epoch>,
    /// The verb of the command tag: `SELECT`, `SHOW`, `INSERT 0` (RETURNING) ...; the row count is appended.
    pub verb: &'static str,
}

/// The receiving side of `COPY ... FROM STDIN`.
#[async_trait::async_trait]
pub trait CopyIn: Send {
    /// Number of columns expected.
    fn columns(&self) -> usize;

    /// Takes the next bytes, cut anywhere.
    ///
    /// # Errors
    /// A row that does not parse: nothing of this COPY is kept.
    async fn data(&mut self, bytes: &[u8]) -> Result<()>;

    /// The client is done: commits the rows as one epoch (or adds them to the open transaction).
    ///
    /// # Returns
    /// The number of rows.
    async fn finish(self: Box<Self>) -> Result<u64>;

    /// The client gave up: drops everything.
    async fn abort(self: Box<Self>, reason: Error);
}
