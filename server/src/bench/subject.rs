//! The engine under measurement: a database in memory, fed by ready-made batches, spoken to in SQL as `cenote run` does.

use super::feed::{Batches, Measured};
use arrow::array::AsArray;
use cenote_engine::port::PathPolicy;
use cenote_query::{Answers, Database, DatabaseConfig, Outcome, Session};
use cenote_statestore::Result;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Memory for the queries that read a view to compare it.
const QUERY_MEMORY_BYTES: usize = 4 << 30;

/// A database that is measured.
pub struct Subject {
    /// The database.
    pub database: Arc<Database>,
    session: Session,
    feed: Arc<Batches>,
}

impl Subject {
    /// Opens a database that keeps nothing outside memory.
    ///
    /// # Arguments
    /// - `answers`: whether the way to the final rows is seen, as in a server, or not, as in `cenote run`.
    pub async fn open(workers: usize, retain_epochs: u64, answers: Answers, feed: Batches) -> Result<Subject> {
        let feed = Arc::new(feed);
        let mut connectors = crate::encode::connectors();
        connectors.register(feed.clone());
        let database = Database::open(DatabaseConfig {
            data_dir: None,
            checkpoints: None,
            checkpoint_retain: 1,
            allow_older_checkpoint: false,
            checkpoint_timeout: Duration::from_secs(600),
            workers,
            retain_epochs,
            retain_time: Duration::ZERO,
            connectors,
            paths: PathPolicy::Any,
            transient_tables: false,
            answers,
            query_memory_bytes: QUERY_MEMORY_BYTES,
            state_backend: Default::default(),
            memory_limit: None,
            state_memory: None,
            state_cache: None,
            take_over: false,
        })
        .await?;
        feed.feeds(&database);
        Ok(Subject {
            session: database.session(),
            database,
            feed,
        })
    }

    /// Runs statements.
    pub async fn run(&mut self, sql: &str) -> Result<()> {
        for statement in self.session.parse(sql)? {
            self.session.execute(&statement, &[]).await?;
        }
        Ok(())
    }

    /// Lets the rows come.
    pub fn release(&self) {
        self.feed.gate.advance();
    }

    /// Waits until every row has come and is visible.
    pub async fn wait(&self) -> Result<()> {
        self.database.wait_for_bounded_sources().await.map(drop)
    }

    /// What each stretch of a stream took.
    pub fn measured(&self, stream: &str) -> Vec<Measured> {
        self.feed.measured(stream)
    }

    /// The first row of a query whose columns are texts.
    pub async fn row(&mut self, sql: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for statement in self.session.parse(sql)? {
            if let Outcome::Rows(mut rows) = self.session.execute(&statement, &[]).await? {
                while let Some(batch) = rows.batches.next().await.transpose()? {
                    if found.is_empty() && batch.num_rows() > 0 {
                        let columns = batch.columns().iter();
                        found = columns
                            .map(|column| column.as_string::<i32>().value(0).to_string())
                            .collect();
                    }
                }
            }
        }
        Ok(found)
    }

    /// Stops its threads.
    pub async fn close(self) -> Result<()> {
        drop(self.session);
        self.database.shutdown().await
    }
}
