//! `statement_timeout`: a statement that takes longer is broken off, as if its client had cancelled it.
//!
//! # Rules kept here
//! 1. The time counts from the statement's start to its last row; `0`: no limit.
//! 2. A commit that is on its way is waited for: what is told is what happened.

use super::Session;
use crate::outcome::{BatchStream, CopyIn, Outcome};
use crate::parse::Statement;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

impl Session {
    /// Runs a statement within the session's `statement_timeout`.
    pub(super) async fn execute_in_time(
        &mut self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        let limit = crate::settings::statement_timeout(&self.settings);
        let Some(deadline) = limit.map(|limit| Instant::now() + limit) else {
            return self.execute_settled(statement, parameters).await;
        };
        let commitment = self.commitment.clone();
        let outcome = {
            let mut work = Box::pin(self.execute_settled(statement, parameters));
            tokio::select! {
                outcome = &mut work => Some(outcome),
                () = sleep_until(deadline) => match commitment.give_up() {
                    true => None,
                    false => Some(work.await),
                },
            }
        };
        match outcome {
            Some(Ok(Outcome::Rows(mut rows))) => {
                rows.batches = until(rows.batches, deadline.saturating_duration_since(Instant::now()));
                Ok(Outcome::Rows(rows))
            }
            Some(Ok(Outcome::CopyIn(copy))) => Ok(Outcome::CopyIn(Box::new(Timed { copy, deadline }))),
            Some(outcome) => outcome,
            None => {
                self.fail_transaction();
                Err(timed_out())
            }
        }
    }
}

/// The batches that come within a time, then an error if there would be more. Only the time counts in which somebody
/// waits for them: a client may rest between the parts of a cursor.
fn until(batches: BatchStream, left: Duration) -> BatchStream {
    let rest = stream::unfold(Some((batches, left)), |state| async move {
        let (mut batches, left) = state?;
        let asked = Instant::now();
        match timeout(left, batches.next()).await {
            Ok(batch) => batch.map(|batch| (batch, Some((batches, left.saturating_sub(asked.elapsed()))))),
            Err(_) => Some((Err(timed_out()), None)),
        }
    });
    rest.boxed()
}

/// A COPY that takes rows until a deadline.
struct Timed {
    copy: Box<dyn CopyIn>,
    deadline: Instant,
}

impl Timed {
    fn check(&self) -> Result<()> {
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(timed_out()),
        }
    }
}

#[async_trait::async_trait]
impl CopyIn for Timed {
    fn columns(&self) -> usize {
        self.copy.columns()
    }

    async fn data(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.copy.data(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<u64> {
        self.check()?;
        self.copy.finish().await
    }

    async fn abort(self: Box<Self>, reason: Error) {
        self.copy.abort(reason).await;
    }
}

fn timed_out() -> Error {
    let message = "canceling statement due to statement timeout";
    Error::new(ErrorKind::Unavailable, "SQL-0405", message)
        .sqlstate("57014")
        .attempt("SET statement_timeout to a longer time, or to 0 for no limit")
}
