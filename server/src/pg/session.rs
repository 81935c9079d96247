//! The session behind a connection. Tests put a scripted one in its place.

use cenote_query::{Commitment, Database, Description, Outcome, TransactionStatus};
use cenote_statestore::Result;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

#[cfg(test)]
use super::tests::script;

/// A parsed statement.
#[derive(Clone)]
pub(super) enum Statement {
    Database(cenote_query::Statement),
    #[cfg(test)]
    Script(Arc<str>),
}

impl Statement {
    /// The SQL text of this statement alone.
    pub(super) fn text(&self) -> &str {
        match self {
            Statement::Database(statement) => statement.text(),
            #[cfg(test)]
            Statement::Script(text) => text,
        }
    }

    /// The name of the cursor that it declares.
    pub(super) fn declared_cursor(&self) -> Option<&str> {
        match self {
            Statement::Database(statement) => statement.declared_cursor(),
            #[cfg(test)]
            Statement::Script(_) => None,
        }
    }
}

/// A session: see [`cenote_query::Session`] for what each method does.
pub(super) enum Session {
    Database(Box<cenote_query::Session>),
    #[cfg(test)]
    Script(script::Session),
}

impl Session {
    pub(super) fn of(database: &Arc<Database>) -> Session {
        Session::Database(Box::new(database.session()))
    }

    pub(super) fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        match self {
            Session::Database(session) => Ok(session.parse(sql)?.into_iter().map(Statement::Database).collect()),
            #[cfg(test)]
            Session::Script(session) => session.parse(sql),
        }
    }

    pub(super) async fn describe(&mut self, statement: &Statement, hints: &[Option<DataType>]) -> Result<Description> {
        match (self, statement) {
            (Session::Database(session), Statement::Database(statement)) => session.describe(statement, hints).await,
            #[cfg(test)]
            (Session::Script(session), statement) => session.describe(statement.text()),
            #[cfg(test)]
            (Session::Database(_), Statement::Script(_)) => unreachable!("a session runs its own statements"),
        }
    }

    pub(super) async fn execute(&mut self, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome> {
        match (self, statement) {
            (Session::Database(session), Statement::Database(statement)) => {
                session.execute(statement, parameters).await
            }
            #[cfg(test)]
            (Session::Script(session), statement) => session.execute(statement.text(), parameters).await,
            #[cfg(test)]
            (Session::Database(_), Statement::Script(_)) => unreachable!("a session runs its own statements"),
        }
    }

    pub(super) fn transaction_status(&self) -> TransactionStatus {
        match self {
            Session::Database(session) => session.transaction_status(),
            #[cfg(test)]
            Session::Script(session) => session.transaction_status(),
        }
    }

    /// Fails an open transaction block after a statement failed where the session could not see it: while its rows were
    /// sent, by a cancel request, in a message that did not decode. Without a block, what a statement that was broken
    /// off left open is rolled back.
    pub(super) fn fail(&mut self) {
        match self {
            Session::Database(session) => session.fail_transaction(),
            #[cfg(test)]
            Session::Script(session) => match session.transaction_status() {
                TransactionStatus::Idle => drop(session.end_implicit(true)),
                _ => session.fail(),
            },
        }
    }

    /// Whether the statement that runs next has its effect, so that it can no longer be cancelled.
    pub(super) fn commitment(&mut self) -> Arc<Commitment> {
        match self {
            Session::Database(session) => session.commitment(),
            #[cfg(test)]
            Session::Script(_) => Arc::default(),
        }
    }

    pub(super) fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        match self {
            Session::Database(session) => session.cursor_columns(name),
            #[cfg(test)]
            Session::Script(_) => None,
        }
    }

    pub(super) fn close_cursor(&mut self, name: &str) -> bool {
        match self {
            Session::Database(session) => session.close_cursor(name),
            #[cfg(test)]
            Session::Script(_) => false,
        }
    }

    pub(super) fn fetched_columns(&self, statement: &Statement) -> Option<SchemaRef> {
        match (self, statement) {
            (Session::Database(session), Statement::Database(statement)) => session.fetched_columns(statement),
            #[cfg(test)]
            _ => None,
        }
    }

    pub(super) fn sends_binary(&self, statement: &Statement) -> bool {
        match (self, statement) {
            (Session::Database(session), Statement::Database(statement)) => session.sends_binary(statement),
            #[cfg(test)]
            _ => false,
        }
    }

    pub(super) fn begin_implicit(&mut self) {
        match self {
            Session::Database(session) => session.begin_implicit(),
            #[cfg(test)]
            Session::Script(session) => session.begin_implicit(),
        }
    }

    pub(super) async fn end_implicit(&mut self, failed: bool) -> Result<()> {
        match self {
            Session::Database(session) => session.end_implicit(failed).await,
            #[cfg(test)]
            Session::Script(session) => session.end_implicit(failed),
        }
    }

    pub(super) fn parameter_status(&self) -> Vec<(String, String)> {
        match self {
            Session::Database(session) => session.parameter_status(),
            #[cfg(test)]
            Session::Script(session) => session.parameter_status(),
        }
    }

    pub(super) fn set_startup_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        match self {
            Session::Database(session) => session.set_startup_parameter(name, value),
            #[cfg(test)]
            Session::Script(session) => session.set_startup_parameter(name, value),
        }
    }
}
