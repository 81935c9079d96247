//! One client's session: settings, open transaction, statements.

use crate::database::Database;
use crate::outcome::Outcome;
use arrow::datatypes::{DataType, SchemaRef};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// A parsed statement with its text, cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) text: Arc<str>,
}

impl Statement {
    /// The SQL text of this statement alone.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a prepared statement takes and gives.
#[derive(Clone, Debug)]
pub struct Description {
    /// Types of `$1`, `$2` ... as inferred or as the client gave them.
    pub parameters: Vec<DataType>,
    /// Columns of the result; `None` for statements without one.
    pub columns: Option<SchemaRef>,
}

/// State of the transaction, as PostgreSQL's ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction block is open.
    Idle,
    /// In a transaction block.
    Open,
    /// In a transaction block that failed; only ROLLBACK (or COMMIT, which rolls back) is taken.
    Failed,
}

/// One client's session. Dropping it rolls back what is open.
pub struct Session {
    database: Arc<Database>,
}

impl Session {
    pub(crate) fn new(database: Arc<Database>) -> Session {
        Session { database }
    }

    /// The database this session works on.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Splits a script into statements. Only syntax is checked.
    ///
    /// # Errors
    /// `Invalid` with SQLSTATE 42601 and the position in `sql`; nothing of the script has run.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let _ = sql;
        Err(Error::new(ErrorKind::Unsupported, "SQL-0001", "cannot parse yet"))
    }

    /// Infers parameters and result columns without running anything.
    ///
    /// # Arguments
    /// - `hints`: parameter types given by the client; `None` where it leaves the choice to us.
    pub async fn describe(&mut self, statement: &Statement, hints: &[Option<DataType>]) -> Result<Description> {
        let _ = (statement, hints);
        Err(Error::new(ErrorKind::Unsupported, "SQL-0001", "cannot describe yet"))
    }

    /// Runs one statement.
    ///
    /// # Arguments
    /// - `parameters`: values of `$1`, `$2` ...; cast to the types that the statement needs.
    ///
    /// # Errors
    /// The statement had no effect. In a transaction block the block is failed.
    pub async fn execute(&mut self, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome> {
        let _ = (statement, parameters);
        Err(Error::new(ErrorKind::Unsupported, "SQL-0001", "cannot execute yet"))
    }

    /// The transaction's state.
    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// Begins an implicit transaction around several statements sent as one message, as PostgreSQL does;
    /// [`Session::end_implicit`] commits it. Statements of their own `BEGIN` take over.
    pub fn begin_implicit(&mut self) {}

    /// Ends the implicit transaction: commits, or rolls back when `failed`.
    pub async fn end_implicit(&mut self, failed: bool) -> Result<()> {
        let _ = failed;
        Ok(())
    }

    /// Session parameters to report to a PostgreSQL client at start (`server_version` ...).
    pub fn parameter_status(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Sets a startup parameter (`application_name`, `client_encoding`, `options` ...); unknown ones are kept.
    pub fn set_startup_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        let _ = (name, value);
        Ok(())
    }

    /// The epoch of this session's last commit; reads of this session are never older.
    pub fn last_epoch(&self) -> Epoch {
        Epoch::ZERO
    }
}
