//! The session's transaction: blocks, implicit ones, and what a statement that was broken off leaves.
//!
//! # Rules kept here
//! 1. A change outside a block is a transaction of its own, run again when another one got to its rows first.
//! 2. A statement that failed or was broken off fails its block; without a block it leaves nothing open.
//!
//! # Not here
//! What a transaction holds and how it reads ([`crate::transaction`]).

use super::{Change, Commitment, Session, TransactionStatus, command};
use crate::dml::Changed;
use crate::error::unsupported;
use crate::outcome::Outcome;
use crate::transaction::Transaction;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use std::sync::Arc;

/// Times that a single statement is run again when another transaction changed its rows meanwhile.
const RETRIES_MAX: usize = 16;

/// Times that it is run at once; from then on, it waits for its turn.
const RETRIES_AT_ONCE: usize = 2;

impl Session {
    /// Takes note of a statement whose future was dropped: it failed.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.running) {
            self.commitment = Arc::default();
            self.fail_transaction();
        }
    }

    /// Fails what is open after a statement failed where the session could not see it (it was broken off, its rows could
    /// not be sent): a transaction block takes only ROLLBACK from then on; an implicit transaction is rolled back.
    pub fn fail_transaction(&mut self) {
        self.running = false;
        match &mut self.transaction {
            Some(transaction) if transaction.implicit => {
                self.transaction = None;
                self.close_scope(false);
            }
            Some(transaction) => transaction.failed = true,
            None => {}
        }
    }

    /// Whether the effect of the statement that runs next is on its way; for who may break it off.
    pub fn commitment(&mut self) -> Arc<Commitment> {
        self.settle();
        self.commitment = Arc::default();
        self.commitment.clone()
    }

    /// Whether what runs now may only read.
    pub(super) fn only_reads(&self) -> bool {
        match &self.transaction {
            Some(transaction) => transaction.only_reads,
            None => crate::settings::only_reads(&self.settings),
        }
    }

    /// Refuses a change where only reading is allowed.
    ///
    /// # Errors
    /// `Invalid` 25006.
    pub(crate) fn refuse_if_only_reads(&self) -> Result<()> {
        if !self.only_reads() {
            return Ok(());
        }
        let message = "cannot change anything in a read-only transaction";
        Err(Error::new(ErrorKind::Invalid, "SQL-0404", message).sqlstate("25006"))
    }

    /// Runs a change, in the open transaction or in one of its own.
    ///
    /// # Returns
    /// What was changed; outside a transaction, once it is committed and can be read.
    pub(super) async fn change(&mut self, change: Change<'_>, parameters: &[ScalarValue]) -> Result<Changed> {
        if self.transaction.is_some() {
            return self.change_once(&change, parameters).await;
        }
        let database = self.database.clone();
        let mut turn = None;
        for attempt in 0..RETRIES_MAX {
            if attempt == RETRIES_AT_ONCE {
                // Those that lose again and again take turns, so that each of them gets on.
                turn = Some(database.take_turn().await);
            }
            let catalog = database.catalog();
            let mut transaction = Transaction::new(self.newest_pin().await?, true);
            transaction.repeats = true;
            transaction.only_reads = crate::settings::only_reads(&self.settings);
            self.transaction = Some(transaction);
            let changed = self.change_once(&change, parameters).await;
            let transaction = self.transaction.take().expect("set above");
            let is_altered = !Arc::ptr_eq(&catalog, &database.catalog());
            let changed = match changed {
                // A table got other columns behind what was pinned.
                Err(error) if is_altered && error.kind() == ErrorKind::Expired => continue,
                changed => changed?,
            };
            match self.finish(transaction).await {
                Ok(()) => return Ok(changed),
                Err(error) if error.code() == "TABLE-0109" => {
                    // Whoever alters the table is about to tell its new columns.
                    drop(database.lock_catalog().await);
                    database.wait_for_newest().await?
                }
                // Somebody else changed the same rows first: look again, once that can be seen, and decide anew.
                Err(error) if error.state() == "40001" => database.wait_for_newest().await?,
                Err(error) => return Err(error),
            };
        }
        drop(turn);
        Err(Error::new(
            ErrorKind::Conflict,
            "TABLE-0102",
            "cannot commit: other transactions keep changing the same rows",
        )
        .sqlstate("40001")
        .attempt("run the statement again"))
    }

    async fn change_once(&mut self, change: &Change<'_>, parameters: &[ScalarValue]) -> Result<Changed> {
        self.refuse_if_only_reads()?;
        let view = self.read_view(None).await?;
        let transaction = self
            .transaction
            .as_mut()
            .ok_or_else(|| Error::bug("a change outside a transaction"))?;
        match change {
            Change::Insert(insert) => crate::dml::insert(&view, transaction, insert, parameters).await,
            Change::Update(update) => crate::dml::update(&view, transaction, update, parameters).await,
            Change::Delete(delete) => crate::dml::delete(&view, transaction, delete, parameters).await,
            Change::Truncate(truncate) => {
                crate::dml::truncate(&view, transaction, truncate)?;
                Ok(Changed::default())
            }
        }
    }

    pub(super) async fn newest_pin(&self) -> Result<cenote_statestore::Pin> {
        self.database.engine().wait_visible(self.last_epoch).await?;
        self.database.engine().pin_visible()
    }

    /// Commits a transaction's changes and waits until they can be read.
    async fn finish(&mut self, transaction: Transaction) -> Result<()> {
        if transaction.is_read_only() {
            return Ok(());
        }
        let commit = transaction.into_commit()?;
        self.commitment.make()?;
        let committed = self.commit_visibly(commit).await;
        if committed.is_err() {
            self.commitment.end();
        }
        committed
    }

    async fn commit_visibly(&mut self, commit: cenote_engine::Commit) -> Result<()> {
        let epoch = self.database.engine().commit(commit).await?;
        self.last_epoch = epoch;
        self.database.engine().wait_visible(epoch).await
    }

    pub(super) fn begin(&mut self, modes: &[TransactionMode]) -> Result<Outcome> {
        let only_reads = only_reads(modes)?.unwrap_or_else(|| crate::settings::only_reads(&self.settings));
        self.open_scope();
        match &mut self.transaction {
            Some(transaction) if transaction.implicit => {
                transaction.implicit = false;
                transaction.only_reads = only_reads;
                Ok(command("BEGIN"))
            }
            Some(_) => Ok(Outcome::Command {
                tag: "BEGIN".into(),
                notices: vec!["there is already a transaction in progress".into()],
            }),
            None => {
                let mut transaction = Transaction::new(self.database.engine().pin_visible()?, false);
                transaction.only_reads = only_reads;
                self.transaction = Some(transaction);
                Ok(command("BEGIN"))
            }
        }
    }

    /// COMMIT or ROLLBACK; AND CHAIN begins the next block at once, of the same kind.
    pub(super) async fn end_block(&mut self, commits: bool, chains: bool) -> Result<Outcome> {
        let open = self.transaction.as_ref().filter(|transaction| !transaction.implicit);
        let only_reads = open.map(|transaction| transaction.only_reads);
        if chains && only_reads.is_none() {
            let verb = if commits { "COMMIT" } else { "ROLLBACK" };
            return Err(no_block(&format!("{verb} AND CHAIN")).attempt("BEGIN first"));
        }
        let outcome = match commits {
            true => self.commit().await?,
            false => self.rollback(),
        };
        if let Some(only_reads) = only_reads.filter(|_| chains) {
            self.begin(&[])?;
            let transaction = self.transaction.as_mut();
            transaction
                .ok_or_else(|| Error::bug("BEGIN without a block"))?
                .only_reads = only_reads;
        }
        Ok(outcome)
    }

    async fn commit(&mut self) -> Result<Outcome> {
        match self.transaction.take() {
            None => Ok(Outcome::Command {
                tag: "COMMIT".into(),
                notices: vec!["there is no transaction in progress".into()],
            }),
            Some(transaction) if transaction.failed => {
                self.close_scope(false);
                Ok(command("ROLLBACK"))
            }
            Some(transaction) => {
                let finished = self.finish(transaction).await;
                self.close_scope(finished.is_ok());
                finished.map(|()| command("COMMIT"))
            }
        }
    }

    fn rollback(&mut self) -> Outcome {
        self.close_scope(false);
        match self.transaction.take() {
            Some(_) => command("ROLLBACK"),
            None => Outcome::Command {
                tag: "ROLLBACK".into(),
                notices: vec!["there is no transaction in progress".into()],
            },
        }
    }

    /// The transaction's state.
    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(transaction) if transaction.failed || self.running => TransactionStatus::Failed,
            Some(transaction) if !transaction.implicit => TransactionStatus::Open,
            _ => TransactionStatus::Idle,
        }
    }

    /// Begins an implicit transaction around several statements sent as one message, as PostgreSQL does;
    /// [`Session::end_implicit`] commits it. Statements of their own `BEGIN` take over.
    pub fn begin_implicit(&mut self) {
        if self.transaction.is_none()
            && let Ok(pin) = self.database.engine().pin_visible()
        {
            let mut transaction = Transaction::new(pin, true);
            transaction.only_reads = crate::settings::only_reads(&self.settings);
            self.transaction = Some(transaction);
            self.open_scope();
        }
    }

    /// Ends the implicit transaction: commits, or rolls back when `failed`.
    pub async fn end_implicit(&mut self, failed: bool) -> Result<()> {
        match self.transaction.take() {
            Some(transaction) if transaction.implicit && !failed && !transaction.failed => {
                let finished = self.finish(transaction).await;
                self.commitment.end();
                self.close_scope(finished.is_ok());
                finished
            }
            Some(transaction) if transaction.implicit => {
                self.close_scope(false);
                Ok(())
            }
            other => {
                self.transaction = other;
                Ok(())
            }
        }
    }
}

/// The error of a statement that means nothing outside a transaction block.
pub(super) fn no_block(what: &str) -> Error {
    let message = format!("{what} can only be used in transaction blocks");
    Error::new(ErrorKind::Invalid, "SQL-0411", message).sqlstate("25P01")
}

/// What the modes of a transaction ask for: whether it only reads; `None`: they do not say.
///
/// # Errors
/// `Unsupported`: SERIALIZABLE, which would promise more than a snapshot gives (write skew).
pub(super) fn only_reads(modes: &[TransactionMode]) -> Result<Option<bool>> {
    let mut only_reads = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(access) => only_reads = Some(*access == TransactionAccessMode::ReadOnly),
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(unsupported("ISOLATION LEVEL SERIALIZABLE").attempt("use REPEATABLE READ"));
            }
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(only_reads)
}
