//! Blobs as objects of a bucket in an object store.
//!
//! # Rules kept here
//! 1. **In one step.** Documents are put in place by one conditional request. A store that does not honour the condition is
//!    refused when it is opened for writing; there is no other way to publish.
//! 2. **Bounded.** Of a file that is written or read a few parts are in memory.
//! 3. **Lazy.** Nothing is read from the environment and nobody is asked before the first blob is.
//! 4. **Secrets stay.** What a store answers is told by code and message; requests, and what authorises them, never are.
//!
//! # Not here
//! Requests, retries, timeouts, credentials: the crate `object_store`. What URLs name: whoever reads one.
//!
//! # Source
//! Conditional writes: Amazon S3 User Guide, "How to prevent object overwrites with conditional writes".

mod download;
mod put;
mod requests;
mod told;
mod upload;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use parking_lot::Mutex;

use super::blobs::{BlobPath, BlobWriter, Blobs, Found, Location, OpenBlob, Refusal};
use put::put_if_absent;
use requests::Connection;
#[cfg(feature = "slatedb")]
pub(crate) use told::text_of;
use told::{refused, told};

/// Tries of one request beyond the first.
const RETRIES: usize = 6;

/// Blobs below a prefix in a bucket.
pub struct Bucket {
    /// As messages call it.
    url: String,
    /// Without slashes at its ends.
    prefix: String,
    source: Source,
    open: Mutex<Option<Arc<Connection>>>,
}

/// How the store is reached.
enum Source {
    /// Amazon S3, or what speaks its protocol, as the environment describes it.
    S3 { bucket: String },
    #[cfg(test)]
    Given(Arc<dyn ObjectStore>),
}

impl Bucket {
    /// Blobs in a bucket of Amazon S3, or of what speaks its protocol. Endpoint, region and credentials are those of the
    /// environment: `AWS_ENDPOINT`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and so on.
    ///
    /// # Arguments
    /// - `prefix`: what begins the names of all objects; empty for none.
    ///
    /// # Errors
    /// Why these can be no names.
    pub fn s3(bucket: &str, prefix: &str) -> Result<Bucket, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return Err("it names no bucket".into());
        }
        let source = Source::S3 {
            bucket: bucket.to_string(),
        };
        Bucket::new(format!("s3://{bucket}"), prefix, source)
    }

    fn new(root: String, prefix: &str, source: Source) -> Result<Bucket, String> {
        let is_path = prefix.is_empty() || Path::parse(prefix).is_ok_and(|path| path.as_ref() == prefix);
        if !is_path {
            return Err("its prefix has empty parts, `.`, `..` or control characters".into());
        }
        let url = if prefix.is_empty() {
            root
        } else {
            format!("{root}/{prefix}")
        };
        Ok(Bucket {
            url,
            prefix: prefix.to_string(),
            source,
            open: Mutex::new(None),
        })
    }

    fn connection(&self) -> io::Result<Arc<Connection>> {
        let mut open = self.open.lock();
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let store = match &self.source {
            Source::S3 { bucket } => s3(bucket)?,
            #[cfg(test)]
            Source::Given(store) => store.clone(),
        };
        let connection = Arc::new(Connection::new(store)?);
        *open = Some(connection.clone());
        Ok(connection)
    }

    /// The object's name.
    fn place(&self, path: &str) -> io::Result<Path> {
        let name = match self.prefix.as_str() {
            "" => path.to_string(),
            prefix => format!("{prefix}/{path}"),
        };
        Path::parse(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// The prefix, or a folder below it, for listings.
    fn folder(&self, folder: Option<&BlobPath>) -> io::Result<Option<Path>> {
        match folder {
            Some(folder) => self.place(folder.as_str()).map(Some),
            None if self.prefix.is_empty() => Ok(None),
            None => Path::parse(&self.prefix)
                .map(Some)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }

    /// What stands behind the prefix.
    fn below<'a>(&self, object: &'a Path) -> Option<&'a str> {
        match self.prefix.as_str() {
            "" => Some(object.as_ref()),
            prefix => object.as_ref().strip_prefix(prefix)?.strip_prefix('/'),
        }
    }
}

fn s3(bucket: &str) -> io::Result<Arc<dyn ObjectStore>> {
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            ..RetryConfig::default()
        });
    let get = |key| builder.get_config_value(&key).unwrap_or_default();
    let is_plain = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint]
        .into_iter()
        .any(|key| get(key).starts_with("http://"));
    let is_allowed = get(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    if is_plain
        && matches!(
            is_allowed.to_ascii_lowercase().as_str(),
            "" | "false" | "0" | "no" | "off"
        )
    {
        let text = "the endpoint is http://, which is allowed by AWS_ALLOW_HTTP=true only";
        return Err(refused(Refusal::Settings, text));
    }
    let store = builder.build();
    let store = store.map_err(|error| refused(Refusal::Settings, told::innermost(&error)))?;
    Ok(Arc::new(store))
}

impl Blobs for Bucket {
    fn create(&self, path: &BlobPath) -> io::Result<Box<dyn BlobWriter>> {
        let (connection, place) = (self.connection()?, self.place(path.as_str())?);
        Ok(Box::new(upload::ObjectWriter::new(connection, place)))
    }

    fn put_if_absent(&self, path: &BlobPath, bytes: &[u8]) -> io::Result<()> {
        let (connection, place) = (self.connection()?, self.place(path.as_str())?);
        let (store, bytes) = (connection.store.clone(), bytes.to_vec());
        connection.run(async move { put_if_absent(store.as_ref(), &place, bytes.into()).await })?
    }

    fn check_put_if_absent(&self, there: &BlobPath, bytes: &[u8]) -> io::Result<()> {
        match self.put_if_absent(there, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let text = "it put an object in the place of one that was there";
                Err(refused(Refusal::Overwrites, text))
            }
        }
    }

    fn open(&self, path: &BlobPath) -> io::Result<OpenBlob> {
        download::open(self.connection()?, self.place(path.as_str())?)
    }

    fn list(&self, folder: Option<&BlobPath>) -> io::Result<Vec<Found>> {
        let (connection, prefix) = (self.connection()?, self.folder(folder)?);
        let store = connection.store.clone();
        let objects = connection.run(async move { store.list(prefix.as_ref()).try_collect::<Vec<_>>().await })?;
        let objects = objects.map_err(told)?;
        let found = objects.iter().filter_map(|object| {
            Some(Found {
                path: BlobPath::parse(self.below(&object.location)?)?,
                length: object.size,
            })
        });
        let mut found: Vec<Found> = found.collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        let (connection, prefix) = (self.connection()?, self.folder(None)?);
        let store = connection.store.clone();
        let listed = connection.run(async move { store.list_with_delimiter(prefix.as_ref()).await })?;
        let folders = listed.map_err(told)?.common_prefixes;
        let mut names: Vec<String> = folders
            .iter()
            .filter_map(|folder| self.below(folder))
            .map(str::to_string)
            .collect();
        names.sort();
        Ok(names)
    }

    fn delete(&self, paths: &[BlobPath]) -> io::Result<()> {
        let connection = self.connection()?;
        let places = paths.iter().map(|path| self.place(path.as_str()));
        let places = places.collect::<io::Result<Vec<Path>>>()?;
        let store = connection.store.clone();
        connection.run(async move {
            let places = futures::stream::iter(places.into_iter().map(Ok)).boxed();
            let mut deleted = store.delete_stream(places);
            while let Some(outcome) = deleted.next().await {
                match outcome {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(told(error)),
                }
            }
            Ok(())
        })?
    }

    fn location(&self) -> Option<Location> {
        match &self.source {
            Source::S3 { bucket } => Some(Location::Bucket {
                name: bucket.clone(),
                prefix: self.prefix.clone(),
            }),
            #[cfg(test)]
            Source::Given(_) => None,
        }
    }

    fn describe(&self, path: Option<&BlobPath>) -> String {
        match path {
            None => self.url.clone(),
            Some(path) => format!("{}/{path}", self.url),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({})", self.url)
    }
}
