//! Where checkpoints go: a URL, of which `file:` is what there is.

use cenote_statestore::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;

/// The folder that a URL names; a path without a scheme is one, too.
///
/// # Errors
/// `Unsupported` CLI-0023: another scheme. `Invalid` CLI-0020: a host, or a path that is not absolute.
pub fn folder_of(url: &str) -> Result<PathBuf> {
    if url.is_empty() {
        return Err(refused(ErrorKind::Invalid, url, "it is empty"));
    }
    let Some((scheme, rest)) = url.split_once(":").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(PathBuf::from(url));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        let reason = format!("`{scheme}` is not supported yet");
        return Err(refused(ErrorKind::Unsupported, url, &reason));
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') {
        return Err(refused(ErrorKind::Invalid, url, "it names no absolute path"));
    }
    let path = percent_decode_str(path).decode_utf8();
    let path = path.map_err(|_| refused(ErrorKind::Invalid, url, "its path is not UTF-8"))?;
    Ok(PathBuf::from(path.into_owned()))
}

/// RFC 3986, 3.1; a single letter is taken for the start of a path.
fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.len() > 1 && text.as_bytes()[0].is_ascii_alphabetic() && text.bytes().all(is_part)
}

fn refused(kind: ErrorKind, url: &str, reason: &str) -> Error {
    let error = Error::new(kind, "CLI-0023", format!("cannot use checkpoint URL `{url}`: {reason}"));
    error.attempt("--checkpoint-url file:///path/to/a/folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_urls_and_paths() {
        for (url, folder) in [
            ("file:///ckpt", "/ckpt"),
            ("FILE://localhost/a%20b", "/a b"),
            ("file:/ckpt", "/ckpt"),
            ("ckpt", "ckpt"),
            ("/a:b", "/a:b"),
        ] {
            assert_eq!(folder_of(url).unwrap(), PathBuf::from(folder), "{url}");
        }
    }

    #[test]
    fn other_places_are_refused_by_name() {
        for (url, kind, text) in [
            (
                "s3://bucket/prefix",
                ErrorKind::Unsupported,
                "`s3` is not supported yet",
            ),
            ("file://host/path", ErrorKind::Invalid, "no absolute path"),
            ("file:///%ff", ErrorKind::Invalid, "not UTF-8"),
            ("", ErrorKind::Invalid, "it is empty"),
        ] {
            let error = folder_of(url).unwrap_err();
            assert_eq!(error.kind(), kind, "{url}");
            assert!(error.message().contains(text), "{}", error.message());
        }
    }
}
