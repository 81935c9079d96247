//! SAVEPOINT, ROLLBACK TO and RELEASE: places in a transaction block to go back to.
//!
//! # Rules kept here
//! 1. ROLLBACK TO takes back what the block wrote, set and declared since, and the failure of a statement since.
//! 2. Of savepoints of one name the newest counts; to go back to one, or to release it, ends those made after it.
//!
//! # Not here
//! Savepoints of the server's state, which share only the name (`AS OF SAVEPOINT`).

use super::{Session, command, settings::Scope, transactions};
use crate::names::{folded, quoted};
use crate::outcome::Outcome;
use crate::transaction::{Transaction, Writes};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::Ident;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Savepoints of one transaction: each keeps the writes up to it from being freed.
const SAVEPOINTS_MAX: usize = 1_000;

/// A transaction block as it was.
pub(super) struct Savepoint {
    name: String,
    writes: Writes,
    only_reads: bool,
    settings: Arc<BTreeMap<String, String>>,
    scope: Scope,
    /// Cursors declared before it.
    cursors: u64,
}

impl Session {
    /// SAVEPOINT.
    pub(super) fn savepoint(&mut self, name: &Ident) -> Result<Outcome> {
        let transaction = block(&mut self.transaction, "SAVEPOINT")?;
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            let message = "cannot make a savepoint: the transaction has too many";
            let error = Error::new(ErrorKind::Invalid, "SQL-0413", message).sqlstate("53400");
            let error = error.fact("limit", format!("{SAVEPOINTS_MAX} savepoints"));
            return Err(error.attempt("RELEASE those that are no longer used"));
        }
        self.savepoints.push(Savepoint {
            name: folded(name),
            writes: transaction.writes().clone(),
            only_reads: transaction.only_reads,
            settings: self.settings.clone(),
            scope: self.scope.clone(),
            cursors: self.cursors.declared(),
        });
        Ok(command("SAVEPOINT"))
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn rollback_to(&mut self, name: &Ident) -> Result<Outcome> {
        let transaction = block(&mut self.transaction, "ROLLBACK TO SAVEPOINT")?;
        let at = place(&self.savepoints, name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        transaction.back_to(savepoint.writes.clone());
        transaction.only_reads = savepoint.only_reads;
        transaction.failed = false;
        self.settings = savepoint.settings.clone();
        self.scope = savepoint.scope.clone();
        self.cursors.back_to(savepoint.cursors);
        Ok(command("ROLLBACK"))
    }

    /// RELEASE SAVEPOINT.
    pub(super) fn release(&mut self, name: &Ident) -> Result<Outcome> {
        block(&mut self.transaction, "RELEASE SAVEPOINT")?;
        let at = place(&self.savepoints, name)?;
        self.savepoints.truncate(at);
        Ok(command("RELEASE"))
    }
}

/// The transaction block that is open. One that several statements of a message share is none.
fn block<'t>(transaction: &'t mut Option<Transaction>, what: &str) -> Result<&'t mut Transaction> {
    let open = transaction.as_mut().filter(|transaction| !transaction.implicit);
    open.ok_or_else(|| transactions::no_block(what).attempt("BEGIN first"))
}

fn place(savepoints: &[Savepoint], name: &Ident) -> Result<usize> {
    let name = folded(name);
    let at = savepoints.iter().rposition(|savepoint| savepoint.name == name);
    at.ok_or_else(|| {
        let message = format!("savepoint {} does not exist", quoted(&name));
        Error::new(ErrorKind::Invalid, "SQL-0412", message).sqlstate("3B001")
    })
}
