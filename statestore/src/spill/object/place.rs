//! Where a database is, and removing what is there.

use super::watched::Watched;
use crate::checkpoint::{Location, new_server_id};
use futures::{StreamExt, TryStreamExt, stream};
use slatedb::object_store::aws::AmazonS3Builder;
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::path::Path;
use slatedb::object_store::{BackoffConfig, Error, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// The folder of all databases beside checkpoints.
const FOLDER: &str = "spill";

/// Tries of one request beyond the first, the longest wait between two, and the time after which there is no other.
const RETRIES: usize = 6;
const BACKOFF_MAX: Duration = Duration::from_secs(3);
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// A folder in a store.
pub(super) struct Place {
    location: Location,
    /// As messages call it.
    pub(super) url: String,
    /// The folder of all starts of one server.
    pub(super) of_server: Path,
    /// The folder of this start.
    pub(super) path: Path,
}

impl Place {
    /// A new folder.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn new(location: &Location, server: &str) -> Result<Place, String> {
        let above = match location {
            Location::Folder(_) => Path::default(),
            Location::Bucket { prefix, .. } => Path::parse(prefix).map_err(|error| error.to_string())?,
        };
        let of_server = above.join(FOLDER).join(server);
        Ok(Place {
            location: location.clone(),
            url: format!("{}/{FOLDER}/{server}", Place::url_of(location)),
            path: of_server.clone().join(new_server_id()),
            of_server,
        })
    }

    pub(super) fn url_of(location: &Location) -> String {
        match location {
            Location::Folder(folder) => folder.display().to_string(),
            Location::Bucket { name, prefix } if prefix.is_empty() => format!("s3://{name}"),
            Location::Bucket { name, prefix } => format!("s3://{name}/{prefix}"),
        }
    }

    /// The store, which nobody asks yet.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn store(&self) -> Result<Arc<dyn ObjectStore>, String> {
        match &self.location {
            Location::Folder(folder) => {
                std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
                let store = LocalFileSystem::new_with_prefix(folder);
                let store = store.map_err(|error| crate::checkpoint::text_of(&error))?;
                Ok(Arc::new(store.with_automatic_cleanup(true)))
            }
            Location::Bucket { name, .. } => {
                let builder = AmazonS3Builder::from_env()
                    .with_bucket_name(name)
                    .with_retry(RetryConfig {
                        backoff: BackoffConfig {
                            max_backoff: BACKOFF_MAX,
                            ..BackoffConfig::default()
                        },
                        max_retries: RETRIES,
                        retry_timeout: RETRY_TIMEOUT,
                    });
                let store = builder.build();
                Ok(Arc::new(store.map_err(|error| crate::checkpoint::text_of(&error))?))
            }
        }
    }
}

/// Removes all that lies in a folder.
pub(super) async fn remove(store: &Watched, folder: &Path) -> Result<(), Error> {
    // All of them first: a folder that is walked through does not like to go.
    let found = store.list(Some(folder)).try_collect::<Vec<_>>().await?;
    let places = found.into_iter().map(|object| Ok(object.location));
    let mut removed = store.delete_stream(stream::iter(places).boxed());
    while let Some(outcome) = removed.next().await {
        match outcome {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
