//! Simple queries: one message with any number of statements, answered in text format.

use super::connection::Connection;
use super::copy;
use super::extended::{Deallocate, portal_exists};
use super::rows::{self, ColumnFormat, RowSource};
use super::session::Statement;
use super::signals::Failure;
use super::subscription;
use cenote_query::Outcome;
use cenote_statestore::Result;
use datafusion::scalar::ScalarValue;

/// What is left to say when a statement is done.
pub(super) enum Completion {
    /// Its command tag.
    Tag(String),
    /// There was no statement.
    Empty,
}

impl Connection {
    /// Answers a simple query. Several statements run in one implicit transaction.
    ///
    /// # Errors
    /// What ends the connection; failures of statements are told to the client here.
    pub(super) async fn query(&mut self, sql: &str) -> Result<(), Failure> {
        self.prepared.remove("");
        self.portals.remove("");
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            self.end_implicit(false).await?;
            self.wire.output.empty_query();
            return self.ready().await;
        }
        if statements.len() > 1 {
            self.begin_implicit();
        }
        let ran = self.run_all(sql, &statements).await;
        let ended = self.end_implicit(ran.is_err()).await;
        match ran.and_then(|completion| ended.map(|()| completion).map_err(|failure| (failure, 0))) {
            Ok(completion) => self.complete(completion),
            Err((Failure::Statement(error), offset)) => {
                self.wire.output.error("ERROR", &error, offset);
                self.session.fail();
            }
            Err((other, _)) => return Err(other),
        }
        self.ready().await
    }

    /// Runs statements one after the other.
    ///
    /// # Returns
    /// The completion of the last one, which is not sent before its transaction committed.
    ///
    /// # Errors
    /// The first failure, with the number of characters before its statement.
    async fn run_all(&mut self, sql: &str, statements: &[Statement]) -> Result<Completion, (Failure, usize)> {
        let mut search_from = 0;
        let mut last = Completion::Empty;
        for (index, statement) in statements.iter().enumerate() {
            if index > 0 {
                self.complete(std::mem::replace(&mut last, Completion::Empty));
            }
            let start = sql[search_from..]
                .find(statement.text())
                .map(|start| search_from + start);
            search_from = start.map_or(search_from, |start| start + statement.text().len());
            let ran = self.run_simple(statement).await;
            last = ran.map_err(|failure| (failure, sql[..start.unwrap_or(0)].chars().count()))?;
        }
        Ok(last)
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Tag(tag) => self.wire.output.command_complete(&tag),
            Completion::Empty => self.wire.output.empty_query(),
        }
    }

    async fn run_simple(&mut self, statement: &Statement) -> Result<Completion, Failure> {
        let formats: &[ColumnFormat] = match self.session.sends_binary(statement) {
            true => &[ColumnFormat::Binary],
            false => &[],
        };
        match self.start(statement, &[]).await? {
            Outcome::Rows(rows) => {
                let mut source = RowSource::new(rows);
                if source.is_subscription() {
                    subscription::send(&mut source, &mut self.wire, &mut self.signals, &self.style).await?;
                    return Ok(Completion::Tag(source.tag(0)));
                }
                rows::describe(&mut self.wire, &source.schema, formats);
                let sent = source
                    .send(&mut self.wire, &mut self.signals, formats, &self.style, u64::MAX)
                    .await?;
                Ok(Completion::Tag(source.tag(sent.rows)))
            }
            other => self.finish(other).await,
        }
    }

    /// Runs a statement up to its outcome, unless it is cancelled.
    ///
    /// A client that hangs up does not stop it: what writes is done whole, as in PostgreSQL; rows are then not read.
    pub(super) async fn start(
        &mut self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Outcome, Failure> {
        if let Some(deallocate) = Deallocate::of(statement.text())
            && let Some(tag) = self.deallocate(deallocate)
        {
            return Ok(Outcome::Command {
                tag,
                notices: Vec::new(),
            });
        }
        if let Some(name) = statement.declared_cursor()
            && self.portals.contains_key(name)
        {
            return Err(portal_exists(name));
        }
        let commitment = self.session.commitment();
        let running = self.session.execute(statement, parameters);
        tokio::pin!(running);
        let failure = tokio::select! {
            biased;
            outcome = &mut running => return Ok(outcome?),
            failure = self.signals.raised() => failure,
        };
        if !commitment.give_up() {
            // It takes effect: saying that it was cancelled would be wrong.
            return Ok(running.await?);
        }
        Err(failure)
    }

    /// Finishes an outcome that is no result set.
    pub(super) async fn finish(&mut self, outcome: Outcome) -> Result<Completion, Failure> {
        match outcome {
            Outcome::Command { tag, notices } => {
                notices.iter().for_each(|notice| self.wire.output.notice(notice));
                if tag == "DISCARD ALL" {
                    self.prepared.clear();
                    self.portals.clear();
                }
                self.report_parameters();
                Ok(Completion::Tag(tag))
            }
            Outcome::CopyIn(receiver) => copy::receive(self, receiver).await,
            Outcome::Empty | Outcome::Rows(_) => Ok(Completion::Empty),
        }
    }
}
