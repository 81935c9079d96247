//! A store that remembers why it last failed: writes are sent by a thread that nobody waits for.

use async_trait::async_trait;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A store with another one behind it.
#[derive(Debug)]
pub(super) struct Watched {
    inner: Arc<dyn ObjectStore>,
    failure: Failure,
}

/// Since when all writes failed, and why the last one did; `None`: it did not.
type Failure = Arc<Mutex<Option<(Instant, String)>>>;

fn note<T>(failure: &Failure, outcome: Result<T>) -> Result<T> {
    match &outcome {
        Ok(_) => *failure.lock() = None,
        // These are answers.
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotImplemented { .. }) => {}
        Err(error) => {
            let mut failure = failure.lock();
            let since = failure.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            *failure = Some((since, crate::checkpoint::text_of(error)));
        }
    }
    outcome
}

impl Watched {
    pub(super) fn new(inner: Arc<dyn ObjectStore>) -> Watched {
        Watched {
            inner,
            failure: Failure::default(),
        }
    }

    /// Why the last write failed, if all have for so long.
    pub(super) fn failing_for(&self, time: Duration) -> Option<String> {
        let failure = self.failure.lock();
        let failing = failure.as_ref().filter(|(since, _)| since.elapsed() >= time);
        failing.map(|(_, reason)| reason.clone())
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(&self, place: &Path, bytes: PutPayload, options: PutOptions) -> Result<PutResult> {
        note(&self.failure, self.inner.put_opts(place, bytes, options).await)
    }

    async fn put_multipart_opts(&self, place: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        // Nothing is written by that yet.
        let inner = self.inner.put_multipart_opts(place, options).await;
        if inner.is_err() {
            return note(&self.failure, inner);
        }
        let failure = self.failure.clone();
        Ok(Box::new(WatchedUpload { inner: inner?, failure }))
    }

    async fn get_opts(&self, place: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(place, options).await
    }

    fn delete_stream(&self, places: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(places)
    }

    fn list(&self, folder: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(folder)
    }

    fn list_with_offset(&self, folder: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(folder, offset)
    }

    async fn list_with_delimiter(&self, folder: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(folder).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// An object that goes in parts.
#[derive(Debug)]
struct WatchedUpload {
    inner: Box<dyn MultipartUpload>,
    failure: Failure,
}

#[async_trait]
impl MultipartUpload for WatchedUpload {
    fn put_part(&mut self, bytes: PutPayload) -> UploadPart {
        let (part, failure) = (self.inner.put_part(bytes), self.failure.clone());
        Box::pin(async move { note(&failure, part.await) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        note(&self.failure, self.inner.complete().await)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
