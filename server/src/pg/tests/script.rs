//! A session that plays a part: each statement's first word says what happens.

use super::super::session::Statement;
use cenote_query::{CopyIn, Description, Outcome, Rows, TransactionStatus};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc};

/// What the test and its sessions share.
#[derive(Default)]
pub struct Stage {
    /// What happened, in order.
    pub log: Mutex<Vec<String>>,
    /// Batches that `rows` made.
    pub batches: AtomicU64,
    /// A statement waits, or stopped waiting.
    pub moved: Notify,
    /// Rows of the next `subscribe`.
    pub subscription: Mutex<Option<mpsc::Receiver<u64>>>,
    /// Transactions that fail when they commit.
    pub commit_failures: AtomicU64,
}

impl Stage {
    pub fn note(&self, event: impl Into<String>) {
        self.log.lock().push(event.into());
        self.moved.notify_waiters();
    }

    /// Waits until something was noted.
    pub async fn wait_for(&self, event: &str) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.log.lock().iter().any(|noted| noted == event) {
                return;
            }
            moved.await;
        }
    }

    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock())
    }
}

pub struct Session {
    stage: Arc<Stage>,
    status: TransactionStatus,
    zone: String,
    implicit: bool,
}

/// Notes when it is dropped.
struct Watch(Arc<Stage>, &'static str);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

fn integers(name: &str, values: Vec<i32>) -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int32, true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int32Array::from(values))]).unwrap();
    (schema, batch)
}

fn rows(schema: SchemaRef, batches: Vec<Result<RecordBatch>>) -> Outcome {
    Outcome::Rows(Rows {
        schema,
        batches: futures::stream::iter(batches).boxed(),
        epoch: None,
        verb: "SELECT",
    })
}

fn command(tag: &str) -> Result<Outcome> {
    Ok(Outcome::Command {
        tag: tag.to_string(),
        notices: Vec::new(),
    })
}

pub fn failure() -> Error {
    let error = Error::new(ErrorKind::Invalid, "SQL-0042", "cannot play: it fails").sqlstate("42883");
    error.fact("seen", "fail").attempt("play another part").position(1)
}

fn long_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

fn epoch_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("epoch", DataType::UInt64, false)]))
}

impl Session {
    pub fn new(stage: Arc<Stage>) -> Session {
        Session {
            stage,
            status: TransactionStatus::Idle,
            zone: "UTC".to_string(),
            implicit: false,
        }
    }

    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        if let Some(index) = sql.find("syntax error") {
            let error = Error::new(ErrorKind::Invalid, "SQL-0002", "syntax error at or near \"syntax\"");
            return Err(error.sqlstate("42601").position(index + 1));
        }
        let parts = sql
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty() && !part.starts_with("--"));
        Ok(parts.map(|part| Statement::Script(part.into())).collect())
    }

    pub fn describe(&mut self, sql: &str) -> Result<Description> {
        let columns = match sql.split(' ').next().unwrap_or_default() {
            "select" | "late" | "changed" => Some(integers("?column?", vec![]).0),
            "rows" => Some(long_schema()),
            "subscribe" => Some(epoch_schema()),
            "echo" => Some(long_schema()),
            "fail" => return Err(failure()),
            _ => None,
        };
        let parameters = if sql.starts_with("echo") {
            vec![DataType::Int64]
        } else {
            Vec::new()
        };
        Ok(Description { parameters, columns })
    }

    pub async fn execute(&mut self, sql: &str, parameters: &[ScalarValue]) -> Result<Outcome> {
        let (word, argument) = sql.split_once(' ').unwrap_or((sql, ""));
        if self.status == TransactionStatus::Failed && !matches!(word, "rollback" | "commit") {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Error::new(ErrorKind::Invalid, "SQL-0003", message).sqlstate("25P02"));
        }
        let outcome = self.play(word, argument, parameters).await;
        if outcome.is_err() {
            self.fail();
        }
        outcome
    }

    async fn play(&mut self, word: &str, argument: &str, parameters: &[ScalarValue]) -> Result<Outcome> {
        let stage = self.stage.clone();
        match word {
            "select" => {
                let (schema, batch) = integers("?column?", vec![1]);
                Ok(rows(schema, vec![Ok(batch)]))
            }
            "late" => {
                let (schema, batch) = integers("?column?", vec![1]);
                Ok(rows(schema, vec![Ok(batch), Err(failure())]))
            }
            "changed" => {
                let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true)]));
                let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(vec!["x"]))]).unwrap();
                Ok(rows(schema, vec![Ok(batch)]))
            }
            "rows" => Ok(numbers(stage, argument.parse().unwrap())),
            "subscribe" => Ok(subscription(stage)),
            "echo" => {
                let array: ArrayRef = parameters[0].cast_to(&DataType::Int64).unwrap().to_array().unwrap();
                Ok(rows(
                    long_schema(),
                    vec![Ok(RecordBatch::try_new(long_schema(), vec![array])?)],
                ))
            }
            "wait" => {
                // As a statement that commits by itself does, and is broken off before it could.
                self.implicit = self.status == TransactionStatus::Idle;
                let watch = Watch(stage.clone(), "wait dropped");
                stage.note("wait");
                std::future::pending::<()>().await;
                drop(watch);
                command("WAIT")
            }
            "write" => {
                stage.note(format!("write {argument}"));
                command("INSERT 0 1")
            }
            "copy" => Ok(Outcome::CopyIn(Box::new(Copy {
                stage,
                bytes: Vec::new(),
            }))),
            "begin" => self.enter(TransactionStatus::Open, "BEGIN"),
            "commit" if self.status == TransactionStatus::Failed => self.enter(TransactionStatus::Idle, "ROLLBACK"),
            "commit" => self.enter(TransactionStatus::Idle, "COMMIT"),
            "rollback" => self.enter(TransactionStatus::Idle, "ROLLBACK"),
            "zone" => {
                self.zone = argument.to_string();
                command("SET")
            }
            "discard" => command("DISCARD ALL"),
            "deallocate" => command("DEALLOCATE"),
            "notice" => Ok(Outcome::Command {
                tag: "DO".into(),
                notices: vec!["look here".into()],
            }),
            _ => Err(failure()),
        }
    }

    fn enter(&mut self, status: TransactionStatus, tag: &str) -> Result<Outcome> {
        self.status = status;
        command(tag)
    }

    pub fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    pub fn fail(&mut self) {
        if self.status == TransactionStatus::Open {
            self.status = TransactionStatus::Failed;
        }
    }

    pub fn begin_implicit(&mut self) {
        self.stage.note("begin implicit");
        self.implicit = true;
    }

    pub fn end_implicit(&mut self, failed: bool) -> Result<()> {
        if !std::mem::take(&mut self.implicit) {
            return Ok(());
        }
        self.stage
            .note(if failed { "rollback implicit" } else { "commit implicit" });
        let failures = &self.stage.commit_failures;
        match failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(Error::new(ErrorKind::Conflict, "SQL-0004", "could not commit")),
            Err(_) => Ok(()),
        }
    }

    pub fn parameter_status(&self) -> Vec<(String, String)> {
        vec![("TimeZone".to_string(), self.zone.clone())]
    }

    pub fn set_startup_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        self.stage.note(format!("{name}={value}"));
        match (name, value) {
            ("database", "nowhere") => {
                let message = "database \"nowhere\" does not exist";
                Err(Error::new(ErrorKind::Invalid, "SQL-0005", message).sqlstate("3D000"))
            }
            _ => Ok(()),
        }
    }
}

/// `count` numbers in batches of 1,000, each made when it is asked for.
fn numbers(stage: Arc<Stage>, count: i64) -> Outcome {
    let starts = (0..count).step_by(1_000);
    let batches = futures::stream::iter(starts).map(move |start| -> Result<RecordBatch> {
        stage.batches.fetch_add(1, Ordering::SeqCst);
        let values = Int64Array::from_iter_values(start..(start + 1_000).min(count));
        Ok(RecordBatch::try_new(long_schema(), vec![Arc::new(values)])?)
    });
    Outcome::Rows(Rows {
        schema: long_schema(),
        batches: batches.boxed(),
        epoch: None,
        verb: "SELECT",
    })
}

fn subscription(stage: Arc<Stage>) -> Outcome {
    let receiver = stage
        .subscription
        .lock()
        .take()
        .expect("the test set up a subscription");
    stage.note("subscribe");
    let watch = Watch(stage, "subscribe dropped");
    let batches = futures::stream::unfold((receiver, watch), |(mut receiver, watch)| async move {
        let value = receiver.recv().await?;
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![value]));
        Some((
            Ok(RecordBatch::try_new(epoch_schema(), vec![array]).unwrap()),
            (receiver, watch),
        ))
    });
    Outcome::Rows(Rows {
        schema: epoch_schema(),
        batches: batches.boxed(),
        epoch: None,
        verb: "SUBSCRIBE",
    })
}

struct Copy {
    stage: Arc<Stage>,
    bytes: Vec<u8>,
}

#[async_trait::async_trait]
impl CopyIn for Copy {
    fn columns(&self) -> usize {
        2
    }

    async fn data(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.windows(3).any(|window| window == b"bad") {
            Err(failure())
        } else {
            Ok(())
        }
    }

    async fn finish(self: Box<Self>) -> Result<u64> {
        self.stage.note(format!(
            "copied {}",
            String::from_utf8_lossy(&self.bytes).replace('\n', "/")
        ));
        Ok(self.bytes.iter().filter(|byte| **byte == b'\n').count() as u64)
    }

    async fn abort(self: Box<Self>, reason: Error) {
        self.stage.note(format!("copy aborted: {}", reason.message()));
    }
}
