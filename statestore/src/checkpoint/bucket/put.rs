//! Putting a whole object in place, in one request, unless one is there.
//!
//! # Rules kept here
//! 1. A request whose answer was lost is sent again, and the store may then refuse it because of the first. Each object carries a
//!    mark of who wrote it, so that what is ours is told from what was there.

use std::io;

use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};

use super::told::{told, told_of_put};
use crate::checkpoint::identity::random;

/// Tries where the store says that an object is there, and there is none: somebody else was at work.
const TRIES: usize = 3;

/// The name of the mark among an object's metadata.
const MARK: &str = "cenote-write";

/// What nobody else marks an object with.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Mark {
        Mark(format!("{:016x}", random()))
    }

    fn attributes(&self) -> Attributes {
        [(Attribute::Metadata(MARK.into()), self.0.clone())]
            .into_iter()
            .collect()
    }

    /// How a streamed object is marked.
    pub(super) fn multipart(&self) -> PutMultipartOptions {
        PutMultipartOptions {
            attributes: self.attributes(),
            ..PutMultipartOptions::default()
        }
    }

    /// Whose the object is that is there; `None`: none is.
    pub(super) async fn owner(&self, store: &dyn ObjectStore, place: &Path) -> io::Result<Option<Whose>> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let found = match store.get_opts(place, options).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        let mark = found.attributes.get(&Attribute::Metadata(MARK.into()));
        Ok(Some(match mark.is_some_and(|mark| mark.as_ref() == self.0) {
            true => Whose::Ours,
            false => Whose::Others,
        }))
    }
}

/// Who wrote an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Others,
}

pub(super) async fn put_if_absent(store: &dyn ObjectStore, place: &Path, bytes: PutPayload) -> io::Result<()> {
    let mark = Mark::new();
    for _ in 0..TRIES {
        let options = PutOptions {
            mode: PutMode::Create,
            attributes: mark.attributes(),
            ..PutOptions::default()
        };
        match store.put_opts(place, bytes.clone(), options).await {
            Ok(_) => return Ok(()),
            Err(Error::AlreadyExists { .. }) => match mark.owner(store, place).await? {
                Some(Whose::Ours) => return Ok(()),
                Some(Whose::Others) => return Err(io::ErrorKind::AlreadyExists.into()),
                None => {}
            },
            Err(error) => return Err(told_of_put(error)),
        }
    }
    Err(io::Error::other(
        "the store refuses it because of one that is not there",
    ))
}
