//! Places of checkpoints: a path, or a URL of a folder or of a bucket; of all that are there, or of one.
//!
//! # Rules kept here
//! 1. Nothing that a URL may hold in secret is told: a URL with a user or a query is refused, and shown without them.
//!
//! # Not here
//! Reaching what a place names: [`Blobs`] do so when they are first asked.

use cenote_statestore::checkpoint::{Blobs, CheckpointId, LocalDisk};
use cenote_statestore::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a text names: the root of checkpoints, and one of them or all.
#[derive(Debug)]
pub struct Place {
    /// What keeps them.
    pub blobs: Arc<dyn Blobs>,
    /// The one that is named; `None`: the root is.
    pub id: Option<String>,
    /// The root, where it is a folder of this machine.
    pub folder: Option<PathBuf>,
}

/// Where a root is.
#[derive(Debug, PartialEq, Eq)]
enum Root<'a> {
    Folder(PathBuf),
    Bucket { name: &'a str, prefix: &'a str },
}

impl Place {
    /// Reads `ROOT` or `ROOT/ID`, where `ROOT` is a path or a URL. A checkpoint has a name that nothing else has.
    ///
    /// # Errors
    /// As of [`blobs_at`].
    pub fn parse(text: &Path) -> Result<Place> {
        match text.to_str() {
            // What is not text is no URL.
            None => Ok(Place::in_folder(text)),
            Some("") => Ok(Place::in_folder(text)),
            Some(url) => match root_of(url)? {
                Root::Folder(path) => Ok(Place::in_folder(&path)),
                Root::Bucket { name, prefix } => Place::in_bucket(url, name, prefix),
            },
        }
    }

    fn in_folder(path: &Path) -> Place {
        let name = path.file_name().and_then(|name| name.to_str());
        let id = name.filter(|name| CheckpointId::parse(name).is_some());
        let above = |path: &Path| {
            path.parent()
                .filter(|root| *root != "")
                .unwrap_or(Path::new("."))
                .to_path_buf()
        };
        let root = match id {
            Some(_) => above(path),
            None => path.to_path_buf(),
        };
        Place {
            blobs: Arc::new(LocalDisk::new(&root)),
            id: id.map(str::to_string),
            folder: Some(root),
        }
    }

    fn in_bucket(url: &str, name: &str, prefix: &str) -> Result<Place> {
        let (above, last) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let id = CheckpointId::parse(last).map(|id| id.to_string());
        let prefix = if id.is_some() { above } else { prefix };
        Ok(Place {
            blobs: bucket(url, name, prefix)?,
            id,
            folder: None,
        })
    }
}

/// What keeps checkpoints at a URL; a path without a scheme names a folder, too.
///
/// # Errors
/// `Unsupported` CLI-0023: another scheme. `Invalid` CLI-0023: a URL that names no place.
pub fn blobs_at(url: &str) -> Result<Arc<dyn Blobs>> {
    match root_of(url)? {
        Root::Folder(path) => Ok(Arc::new(LocalDisk::new(path))),
        Root::Bucket { name, prefix } => bucket(url, name, prefix),
    }
}

#[cfg(not(feature = "object-store"))]
fn bucket(url: &str, _name: &str, _prefix: &str) -> Result<Arc<dyn Blobs>> {
    let reason = "this build keeps nothing in buckets: it was made without the feature object-store";
    Err(refused(ErrorKind::Unsupported, url, reason))
}

#[cfg(feature = "object-store")]
fn bucket(url: &str, name: &str, prefix: &str) -> Result<Arc<dyn Blobs>> {
    let bucket = cenote_statestore::checkpoint::Bucket::s3(name, prefix);
    let bucket = bucket.map_err(|reason| refused(ErrorKind::Invalid, url, &reason))?;
    Ok(Arc::new(bucket))
}

fn root_of(url: &str) -> Result<Root<'_>> {
    if url.is_empty() {
        return Err(refused(ErrorKind::Invalid, url, "it is empty"));
    }
    let Some((scheme, rest)) = url.split_once(":").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(Root::Folder(PathBuf::from(url)));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => folder_of(url, rest).map(Root::Folder),
        "s3" | "s3a" => bucket_of(url, rest),
        _ => {
            let reason = format!("the scheme `{scheme}` is not supported");
            Err(refused(ErrorKind::Unsupported, url, &reason))
        }
    }
}

fn folder_of(url: &str, rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') {
        return Err(refused(ErrorKind::Invalid, url, "it names no absolute path"));
    }
    let path = percent_decode_str(path).decode_utf8();
    let path = path.map_err(|_| refused(ErrorKind::Invalid, url, "its path is not UTF-8"))?;
    Ok(PathBuf::from(path.into_owned()))
}

/// As the tools of AWS read it: what stands behind the bucket is a prefix as it is, not percent-encoded.
fn bucket_of<'a>(url: &str, rest: &'a str) -> Result<Root<'a>> {
    let invalid = |reason| refused(ErrorKind::Invalid, url, reason);
    let rest = rest.strip_prefix("//").ok_or_else(|| invalid("it names no bucket"))?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.contains('@') {
        return Err(invalid("credentials are taken from the environment, not from a URL"));
    }
    if rest.contains(['?', '#']) {
        return Err(invalid("it may have neither a query nor a fragment"));
    }
    let prefix = prefix.trim_end_matches('/');
    Ok(Root::Bucket { name, prefix })
}

/// RFC 3986, 3.1; a single letter is taken for the start of a path.
fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.len() > 1 && text.as_bytes()[0].is_ascii_alphabetic() && text.bytes().all(is_part)
}

/// A URL without what may be a secret.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_string(),
    }
}

fn refused(kind: ErrorKind, url: &str, reason: &str) -> Error {
    let message = format!("cannot use checkpoint URL `{}`: {reason}", shown(url));
    Error::new(kind, "CLI-0023", message)
        .attempt("a path, file:///path/to/a/folder or s3://bucket/prefix; ./ before a path that has a colon")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "20261130T151923.123Z-9f3a01bc";

    #[test]
    fn folders_are_named_by_urls_and_paths() {
        for (url, folder) in [
            ("file:///ckpt", "/ckpt"),
            ("FILE://localhost/a%20b", "/a b"),
            ("file:/ckpt", "/ckpt"),
            ("ckpt", "ckpt"),
            ("/a:b", "/a:b"),
            ("./ab:c", "./ab:c"),
        ] {
            assert_eq!(root_of(url).unwrap(), Root::Folder(PathBuf::from(folder)), "{url}");
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn buckets_are_named_by_urls() {
        for (url, shown) in [
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("S3://bucket/a/b/", "s3://bucket/a/b"),
            ("s3a://my.bucket-1/a%20b", "s3://my.bucket-1/a%20b"),
        ] {
            assert_eq!(blobs_at(url).unwrap().describe(None), shown, "{url}");
        }
    }

    #[test]
    fn places_name_one_checkpoint_or_the_root_of_them() {
        for (text, root, id) in [
            (format!("a/b/{ID}"), "a/b", Some(ID)),
            (format!("{ID}/"), ".", Some(ID)),
            (format!("file:///a/{ID}"), "/a", Some(ID)),
            (format!("file:///{ID}"), "/", Some(ID)),
            (format!("s3://bucket/{ID}"), "s3://bucket", Some(ID)),
            (format!("s3://bucket/a/b/{ID}/"), "s3://bucket/a/b", Some(ID)),
            ("s3://bucket/a".into(), "s3://bucket/a", None),
            ("a/b".into(), "a/b", None),
            (String::new(), "", None),
        ] {
            if !cfg!(feature = "object-store") && text.starts_with("s3:") {
                let error = Place::parse(Path::new(&text)).unwrap_err();
                assert!(error.message().contains("the feature object-store"), "{error}");
                continue;
            }
            let place = Place::parse(Path::new(&text)).unwrap();
            assert_eq!(
                (place.blobs.describe(None).as_str(), place.id.as_deref()),
                (root, id),
                "{text}"
            );
        }
    }

    #[test]
    fn other_places_are_refused_by_name_and_no_secret_is_told() {
        for (url, kind, text) in [
            ("ftp://host/path", ErrorKind::Unsupported, "`ftp` is not supported"),
            ("file://host/path", ErrorKind::Invalid, "no absolute path"),
            ("file:///%ff", ErrorKind::Invalid, "not UTF-8"),
            ("", ErrorKind::Invalid, "it is empty"),
            ("s3:bucket", ErrorKind::Invalid, "no bucket"),
            ("s3:///prefix", ErrorKind::Invalid, "no bucket"),
            ("s3://bucket/a//b", ErrorKind::Invalid, "prefix"),
            ("s3://bucket/../b", ErrorKind::Invalid, "prefix"),
            ("s3://buc ket/b", ErrorKind::Invalid, "no bucket"),
            (
                "s3://key:hidden@bucket/a",
                ErrorKind::Invalid,
                "`s3://bucket/a`: credentials",
            ),
            (
                "s3://bucket/a?token=hidden",
                ErrorKind::Invalid,
                "`s3://bucket/a`: it may have",
            ),
            (
                "https://u:hidden@host/a#hidden",
                ErrorKind::Unsupported,
                "`https://host/a`",
            ),
        ] {
            let error = blobs_at(url).unwrap_err();
            if !cfg!(feature = "object-store") && error.kind() == ErrorKind::Unsupported && url.starts_with("s3:") {
                continue;
            }
            assert_eq!((error.kind(), error.code()), (kind, "CLI-0023"), "{url}");
            assert!(error.message().contains(text), "{}", error.message());
            assert!(!error.render().contains("hidden"), "{}", error.render());
        }
    }
}
