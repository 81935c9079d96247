//! Buckets whose requests fail, one at every step: told, nothing damaged, and the next checkpoint is good.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::upload::PART_BYTES;
use super::*;
use crate::ErrorKind;
use crate::checkpoint::blobs::Refused;
use crate::checkpoint::tests::life::{before, go_on, judge, live, open_on};

impl Bucket {
    /// Blobs in memory.
    pub(in crate::checkpoint) fn in_memory(prefix: &str) -> Bucket {
        Bucket::given(Arc::new(InMemory::new()), prefix)
    }

    fn given(store: Arc<dyn ObjectStore>, prefix: &str) -> Bucket {
        Bucket::new("s3://test".into(), prefix, Source::Given(store)).unwrap()
    }
}

/// What happens at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The request does nothing, and an error is told.
    Fails,
    /// It is done, and an error is told.
    DoneButFails,
    /// It is done by half, or not at all, and success is told.
    Lies,
    /// This request and all later ones fail, as in a process that was killed.
    Dies,
    /// It is done, its answer is lost, and the store refuses the one that is sent in its place.
    RefusedOnceDone,
}

#[derive(Debug)]
struct Faulty {
    real: Arc<InMemory>,
    fault: Fault,
    at: usize,
    steps: AtomicUsize,
    fired: Mutex<Vec<&'static str>>,
}

fn injected<T>() -> Result<T> {
    Err(Error::Generic {
        store: "S3",
        source: "injected".into(),
    })
}

fn refuses<T>() -> Result<T> {
    Err(Error::AlreadyExists {
        path: "it".into(),
        source: "injected".into(),
    })
}

fn half(payload: PutPayload) -> PutPayload {
    let bytes = Bytes::from(payload);
    bytes.slice(..bytes.len() / 2).into()
}

impl Faulty {
    fn new(real: Arc<InMemory>, fault: Fault, at: usize) -> Arc<Faulty> {
        Arc::new(Faulty {
            real,
            fault,
            at,
            steps: AtomicUsize::new(0),
            fired: Mutex::default(),
        })
    }

    /// The fault, if it is due at this step, which is counted.
    fn due(&self, step: &'static str) -> Option<Fault> {
        let number = self.steps.fetch_add(1, Ordering::Relaxed);
        let is_due = number == self.at || (self.fault == Fault::Dies && number > self.at);
        if is_due {
            self.fired.lock().push(step);
        }
        is_due.then_some(self.fault)
    }

    fn fired(&self) -> Option<&'static str> {
        self.fired.lock().first().copied()
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match self.due("put") {
            None => self.real.put_opts(location, payload, options).await,
            Some(Fault::Fails | Fault::Dies) => injected(),
            Some(Fault::Lies) => self.real.put_opts(location, half(payload), options).await,
            Some(fault) => {
                let _ = self.real.put_opts(location, payload, options).await;
                match fault {
                    Fault::RefusedOnceDone => refuses(),
                    _ => injected(),
                }
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let real = self.real.put_multipart_opts(location, options).await?;
        match self.due("begin") {
            None | Some(Fault::Lies) => Ok(Box::new(FaultyUpload {
                real,
                part: self.due("part"),
                complete: self.due("complete"),
            })),
            Some(_) => injected(),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let step = if options.head { "head" } else { "get" };
        match self.due(step) {
            None | Some(Fault::RefusedOnceDone) => self.real.get_opts(location, options).await,
            Some(Fault::Lies) if !options.head => {
                let found = self.real.get_opts(location, options).await?;
                let (meta, attributes) = (found.meta.clone(), found.attributes.clone());
                let bytes = found.bytes().await?;
                let range: Range<u64> = 0..bytes.len() as u64 / 2;
                let rest = bytes.slice(..bytes.len() / 2);
                Ok(GetResult {
                    payload: GetResultPayload::Stream(futures::stream::iter([Ok(rest)]).boxed()),
                    meta,
                    attributes,
                    range,
                })
            }
            Some(_) => injected(),
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.due("delete") {
            None => self.real.delete_stream(locations),
            Some(Fault::Lies) => locations,
            Some(Fault::DoneButFails) => {
                let deleted = self.real.delete_stream(locations);
                deleted.chain(futures::stream::iter([injected()])).boxed()
            }
            Some(_) => futures::stream::iter([injected()]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.due("list") {
            None => self.real.list(prefix),
            Some(Fault::Lies) => self.real.list(prefix).skip(3).boxed(),
            Some(_) => futures::stream::iter([injected()]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.real.list_with_delimiter(prefix).await?;
        match self.due("folders") {
            None => Ok(listed),
            Some(Fault::Lies) => {
                listed.common_prefixes.truncate(listed.common_prefixes.len() / 2);
                Ok(listed)
            }
            Some(_) => injected(),
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.real.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    real: Box<dyn MultipartUpload>,
    part: Option<Fault>,
    complete: Option<Fault>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        match self.part.take() {
            None => self.real.put_part(payload),
            Some(Fault::Lies) => self.real.put_part(half(payload)),
            Some(_) => Box::pin(async { injected() }),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        match self.complete.take() {
            None => self.real.complete().await,
            Some(Fault::DoneButFails | Fault::RefusedOnceDone) => self.real.complete().await.and(injected()),
            Some(_) => injected(),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.real.abort().await
    }
}

fn blobs(store: Arc<dyn ObjectStore>) -> Arc<dyn Blobs> {
    Arc::new(Bucket::given(store, "some/prefix"))
}

/// A copy of all objects.
fn copied(from: &Arc<InMemory>) -> Arc<InMemory> {
    Arc::new(from.fork())
}

#[test]
fn fault_at_every_request_is_told_damages_nothing_and_the_next_checkpoint_is_good() {
    let origin = Arc::new(InMemory::new());
    let (first, second) = before(&blobs(origin.clone()));
    for fault in [
        Fault::Fails,
        Fault::DoneButFails,
        Fault::Lies,
        Fault::Dies,
        Fault::RefusedOnceDone,
    ] {
        let mut fired = BTreeSet::new();
        for at in 0.. {
            let real = copied(&origin);
            let faulty = Faulty::new(real.clone(), fault, at);
            let life = live(blobs(faulty.clone()), &second);
            let case = format!("{fault:?} at request {at} ({:?})", faulty.fired());
            let Some(step) = faulty.fired() else {
                assert!(life.error.is_none(), "{case}: {:?}", life.error);
                assert!(at >= 30, "only {at} requests");
                break;
            };
            fired.insert(step);
            match (&life.error, fault) {
                // Of lies some cannot be seen; they must do no harm.
                (_, Fault::Lies) => {}
                (outcome, Fault::RefusedOnceDone) if step == "put" => assert!(outcome.is_none(), "{case}: {outcome:?}"),
                (None, Fault::RefusedOnceDone) => {}
                (Some(error), _) => assert_eq!(
                    (error.kind(), error.state()),
                    (ErrorKind::Unavailable, "58030"),
                    "{case}: {error:?}"
                ),
                (None, _) => panic!("{case}: no error"),
            }
            let newest = judge(&blobs(real.clone()), &first, &second, &life, &case);
            go_on(&blobs(real), &newest, &case);
        }
        let some = ["delete", "folders", "get", "list", "put"];
        assert!(some.iter().all(|step| fired.contains(step)), "{fault:?}: {fired:?}");
    }
}

#[test]
fn large_object_that_fails_is_none_and_one_whose_answer_was_lost_is_whole() {
    let bytes = vec![7; 2 * PART_BYTES + 3];
    let path = BlobPath::parse("a/b").unwrap();
    for fault in [Fault::Fails, Fault::DoneButFails] {
        for (at, step) in ["begin", "part", "complete"].into_iter().enumerate() {
            let real = Arc::new(InMemory::new());
            let faulty = Faulty::new(real.clone(), fault, at);
            let mut writer = blobs(faulty.clone()).create(&path).unwrap();
            let written = writer.write_all(&bytes).and_then(|()| writer.finish());
            assert_eq!(faulty.fired(), Some(step));
            let found = blobs(real).list(None).unwrap();
            match (step, fault) {
                ("complete", Fault::DoneButFails) => {
                    written.unwrap();
                    assert_eq!(found[0].length, bytes.len() as u64);
                }
                _ => {
                    assert_eq!(written.unwrap_err().to_string(), "injected", "{step}, {fault:?}");
                    assert_eq!(found, [], "{step}, {fault:?}");
                }
            }
        }
    }
}

#[test]
fn writer_goes_on_with_no_part_after_one_that_failed() {
    let faulty = Faulty::new(Arc::new(InMemory::new()), Fault::Fails, 1);
    let mut writer = blobs(faulty).create(&BlobPath::parse("a").unwrap()).unwrap();
    let part = vec![0; PART_BYTES];
    // It is under way when the next one is written.
    let outcomes: Vec<bool> = (0..6).map(|_| writer.write_all(&part).is_ok()).collect();
    assert!(outcomes.contains(&false), "{outcomes:?}");
    assert_eq!(writer.finish().unwrap_err().to_string(), "a part of it was not written");
}

/// A store that takes the condition and does not honour it.
#[derive(Debug)]
struct Careless(InMemory);

impl fmt::Display for Careless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Careless")
    }
}

#[async_trait]
impl ObjectStore for Careless {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mode = object_store::PutMode::Overwrite;
        self.0.put_opts(location, payload, PutOptions { mode, ..options }).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

#[test]
fn store_that_overwrites_is_refused_before_anything_is_published() {
    let careless = blobs(Arc::new(Careless(InMemory::new())));
    for _ in 0..2 {
        let error = open_on(careless.clone()).unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.state()),
            (ErrorKind::Unsupported, "CKPT-0015", "0A000")
        );
    }
    let names: Vec<String> = careless
        .list(None)
        .unwrap()
        .iter()
        .map(|found| found.path.to_string())
        .collect();
    assert_eq!(names, ["server.json"]);
}

#[test]
fn object_that_is_replaced_while_it_is_read_is_an_error() {
    let store = Arc::new(InMemory::new());
    let (bucket, path) = (blobs(store.clone()), BlobPath::parse("a").unwrap());
    bucket.put_if_absent(&path, &vec![1; PART_BYTES]).unwrap();
    let mut open = bucket.open(&path).unwrap();
    bucket.delete(std::slice::from_ref(&path)).unwrap();
    bucket.put_if_absent(&path, &vec![2; PART_BYTES]).unwrap();
    let mut bytes = Vec::new();
    let error = std::io::Read::read_to_end(&mut open.bytes, &mut bytes).unwrap_err();
    assert_eq!(error.to_string(), "it changed while it was read");
    assert!(bytes.iter().all(|byte| *byte == 1));
}

#[test]
fn calls_may_come_from_inside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let bucket = Bucket::in_memory("");
        bucket.put_if_absent(&BlobPath::parse("a").unwrap(), b"x").unwrap();
        assert_eq!(bucket.list(None).unwrap().len(), 1);
        drop(bucket);
    });
}

#[test]
fn names_that_can_be_none_are_refused() {
    for bucket in ["", "a b", "a/b", "é"] {
        assert!(Bucket::s3(bucket, "").is_err(), "{bucket}");
    }
    for prefix in ["/", "a//b", "..", "a/./b", "/a", "a\n"] {
        assert!(Bucket::s3("bucket", prefix).is_err(), "{prefix}");
    }
    // Nobody is asked for that.
    let bucket = Bucket::s3("bucket", "a=b/ü").unwrap();
    assert_eq!(bucket.describe(None), "s3://bucket/a=b/ü");
    assert_eq!(format!("{bucket:?}"), "Bucket(s3://bucket/a=b/ü)");
}

#[test]
fn refusals_have_codes_of_their_own() {
    let code = |refusal| {
        let cause = refused(refusal, "why");
        assert!(cause.get_ref().unwrap().is::<Refused>());
        let error = crate::checkpoint::fault::io("list", "s3://b", cause);
        assert_eq!(error.message(), "cannot list `s3://b`: why");
        assert!(error.hint().is_some());
        (error.code(), error.state())
    };
    assert_eq!(code(Refusal::NoBucket), ("CKPT-0012", "58P01"));
    assert_eq!(code(Refusal::Denied), ("CKPT-0013", "42501"));
    assert_eq!(code(Refusal::Unreachable), ("CKPT-0014", "08006"));
    assert_eq!(code(Refusal::Overwrites), ("CKPT-0015", "0A000"));
    assert_eq!(code(Refusal::Settings), ("CKPT-0016", "22023"));
}
