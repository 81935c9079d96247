//! The threads that queries are computed on, apart from those that serve clients.
//!
//! An operator of a query computes for as long as its batch takes. On a thread that also waits for sockets, that is how
//! long every client would wait; here, queries only wait for each other.
//!
//! # Not here
//! How many parts a query is computed in (the planner's configuration), and memory ([`crate::plan`]).

use cenote_engine::THREAD_STACK_BYTES;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use futures::{FutureExt, StreamExt};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Handle, Runtime};

/// Batches of a result that wait for its reader.
const BATCHES_AHEAD: usize = 2;

/// Threads per core: an operator may compute for seconds before it lets go, and the other queries' threads share the
/// cores with it meanwhile.
const THREADS_PER_CORE: usize = 4;

/// The threads, started with the first query.
#[derive(Default)]
pub(crate) struct QueryThreads {
    runtime: OnceLock<Runtime>,
}

impl QueryThreads {
    fn handle(&self) -> Result<Handle> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.handle().clone());
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores * THREADS_PER_CORE)
            .thread_name("query")
            .thread_stack_size(THREAD_STACK_BYTES)
            .enable_all()
            .build()?;
        // Two first queries at once: the second one's threads go again.
        if let Err(spare) = self.runtime.set(runtime) {
            spare.shutdown_background();
        }
        self.handle()
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Computes a plan on the query threads; the result's stream stops it when it is dropped.
///
/// # Errors
/// `Unavailable`: no threads can be started.
pub(crate) fn compute(state: &SessionState, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
    let threads = state.config().get_extension::<QueryThreads>();
    let threads = threads.ok_or_else(|| Error::bug("a planner without threads"))?;
    let mut stream = RecordBatchReceiverStreamBuilder::new(plan.schema(), BATCHES_AHEAD);
    let sender = stream.tx();
    let context = state.task_ctx();
    let task = async move {
        let mut batches = execute_stream(plan, context)?;
        while let Some(batch) = batches.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let task = AssertUnwindSafe(task)
        .catch_unwind()
        .map(|done| done.unwrap_or_else(|panic| Err(panicked(&*panic))));
    stream.spawn_on(task, &threads.handle()?);
    Ok(stream.build())
}

/// A library that runs out of what its types hold panics; that ends the query, and nothing else.
fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    if text.is_some_and(|text| text.contains("offset overflow")) {
        return crate::provider::outside(crate::error::too_long_together());
    }
    let message = "cannot run query: one of its functions or operators panicked";
    let error = Error::new(ErrorKind::Bug, "QUERY-0002", message).sqlstate("XX000");
    crate::provider::outside(error.attempt("a smaller result, if a text or a list grew beyond 2 GB"))
}

#[cfg(test)]
mod tests;
