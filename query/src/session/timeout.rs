//! `statement_timeout`: a statement that takes longer is broken off, as if its client had cancelled it.
//!
//! # Rules kept here
//! 1. The time counts from the statement's start to its last row; `0`: no limit.
//! 2. A commit that is on its way is waited for: what is told is what happened.

use super::Session;
use crate::outcome::{BatchStream, Outcome};
use crate::parse::Statement;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};
use std::sync::atomic::Ordering;
use tokio::time::{Instant, sleep_until, timeout_at};

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
        let committing = self.committing();
        let outcome = {
            let mut work = Box::pin(self.execute_settled(statement, parameters));
            tokio::select! {
                outcome = &mut work => Some(outcome),
                () = sleep_until(deadline) => match committing.load(Ordering::Acquire) {
                    true => Some(work.await),
                    false => None,
                },
            }
        };
        match outcome {
            Some(Ok(Outcome::Rows(mut rows))) => {
                rows.batches = until(rows.batches, deadline);
                Ok(Outcome::Rows(rows))
            }
            Some(outcome) => outcome,
            None => {
                self.fail_transaction();
                Err(timed_out())
            }
        }
    }
}

/// The batches that come before a deadline, then an error if there would be more.
fn until(batches: BatchStream, deadline: Instant) -> BatchStream {
    let rest = stream::unfold(Some(batches), move |batches| async move {
        let mut batches = batches?;
        match timeout_at(deadline, batches.next()).await {
            Ok(batch) => batch.map(|batch| (batch, Some(batches))),
            Err(_) => Some((Err(timed_out()), None)),
        }
    });
    rest.boxed()
}

fn timed_out() -> Error {
    let message = "canceling statement due to statement timeout";
    Error::new(ErrorKind::Unavailable, "SQL-0405", message)
        .sqlstate("57014")
        .attempt("SET statement_timeout to a longer time, or to 0 for no limit")
}
