//! What [`Blobs`] promise, asked of everything that keeps them.

use super::*;
use std::io::{Read, Write};

/// Everything that keeps blobs, empty, and what it is called.
fn kinds(folder: &Path) -> Vec<(&'static str, Arc<dyn Blobs>)> {
    vec![
        ("disk", Arc::new(LocalDisk::with_files(folder, Arc::new(Unsynced)))),
        #[cfg(feature = "object-store")]
        ("bucket", Arc::new(Bucket::in_memory(""))),
        #[cfg(feature = "object-store")]
        ("prefix", Arc::new(Bucket::in_memory("deep/pre%fix=1"))),
    ]
}

fn each(test: impl Fn(&'static str, &dyn Blobs)) {
    let folder = tempfile::tempdir().unwrap();
    for (kind, blobs) in kinds(&folder.path().join("deep/root")) {
        test(kind, blobs.as_ref());
    }
}

fn path(text: &str) -> BlobPath {
    BlobPath::parse(text).unwrap()
}

fn write(blobs: &dyn Blobs, at: &str, bytes: &[u8]) -> io::Result<()> {
    let mut writer = blobs.create(&path(at))?;
    for chunk in bytes.chunks(1_000_003) {
        writer.write_all(chunk)?;
    }
    writer.finish()
}

fn read(blobs: &dyn Blobs, at: &str) -> io::Result<Vec<u8>> {
    let mut open = blobs.open(&path(at))?;
    let mut bytes = Vec::new();
    open.bytes.read_to_end(&mut bytes)?;
    assert_eq!(bytes.len() as u64, open.length);
    Ok(bytes)
}

fn names(found: &[Found]) -> Vec<&str> {
    found.iter().map(|found| found.path.as_str()).collect()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random(bytes as u64);
    std::iter::repeat_with(|| random.next().to_le_bytes())
        .flatten()
        .take(bytes)
        .collect()
}

const MIB: usize = 1 << 20;

#[test]
fn bytes_come_back_as_they_were_written_at_every_length() {
    let around = |bytes: usize| [bytes - 1, bytes, bytes + 1];
    let lengths = [
        around(1),
        around(64 << 10),
        around(8 * MIB),
        around(16 * MIB + (64 << 10)),
    ]
    .concat();
    each(|kind, blobs| {
        for length in &lengths {
            let (at, bytes) = (format!("a/{length}"), noise(*length));
            write(blobs, &at, &bytes).unwrap();
            assert!(read(blobs, &at).unwrap() == bytes, "{kind}: {length}");
        }
        let found = blobs.list(None).unwrap();
        assert_eq!(found.len(), lengths.len(), "{kind}");
        for Found { path, length } in found {
            assert_eq!(path.as_str(), format!("a/{length}"), "{kind}");
        }
    });
}

#[test]
fn blob_is_there_when_it_is_finished_and_not_before() {
    each(|kind, blobs| {
        for length in [3, 20 * MIB] {
            let bytes = noise(length);
            let mut writer = blobs.create(&path("a/b")).unwrap();
            writer.write_all(&bytes).unwrap();
            assert_eq!(
                read(blobs, "a/b").unwrap_err().kind(),
                io::ErrorKind::NotFound,
                "{kind}"
            );
            drop(writer);
            assert_eq!(
                read(blobs, "a/b").unwrap_err().kind(),
                io::ErrorKind::NotFound,
                "{kind}"
            );
            assert_eq!(names(&blobs.list(None).unwrap()), [""; 0], "{kind}");
        }
    });
}

#[test]
fn blob_that_is_there_is_never_replaced() {
    each(|kind, blobs| {
        let taken = io::ErrorKind::AlreadyExists;
        write(blobs, "streamed", b"first").unwrap();
        blobs.put_if_absent(&path("put"), b"first").unwrap();
        for at in ["streamed", "put"] {
            for other in [b"other".to_vec(), b"first".to_vec(), noise(20 * MIB)] {
                assert_eq!(write(blobs, at, &other).unwrap_err().kind(), taken, "{kind}");
                let put = blobs.put_if_absent(&path(at), &other);
                assert_eq!(put.unwrap_err().kind(), taken, "{kind}");
            }
            assert_eq!(read(blobs, at).unwrap(), b"first", "{kind}");
            blobs.check_put_if_absent(&path(at), b"first").unwrap();
        }
        assert_eq!(names(&blobs.list(None).unwrap()), ["put", "streamed"], "{kind}");
    });
}

#[test]
fn of_many_who_put_one_blob_one_does() {
    each(|kind, blobs| {
        for round in 0..20 {
            let at = path(&format!("round/{round}"));
            let outcomes: Vec<io::Result<()>> = std::thread::scope(|scope| {
                let put = |who: u8| blobs.put_if_absent(&at, &[who; 1000]);
                let threads: Vec<_> = (0..8).map(|who| scope.spawn(move || put(who))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let won: Vec<u8> = (0..8).filter(|who| outcomes[*who as usize].is_ok()).collect();
            let [winner] = won[..] else {
                panic!("{kind}: {outcomes:?}");
            };
            assert_eq!(read(blobs, at.as_str()).unwrap(), [winner; 1000], "{kind}");
        }
    });
}

#[test]
fn listings_are_sorted_and_keep_to_their_folder() {
    each(|kind, blobs| {
        assert_eq!(blobs.list(None).unwrap(), [], "{kind}");
        assert_eq!(blobs.folders().unwrap(), [""; 0], "{kind}");
        for at in ["b/%41.x~/1", "a/c/d", "ab/1", "a/b", "a.b/1", "top"] {
            blobs.put_if_absent(&path(at), at.as_bytes()).unwrap();
        }
        let all = blobs.list(None).unwrap();
        assert_eq!(
            names(&all),
            ["a.b/1", "a/b", "a/c/d", "ab/1", "b/%41.x~/1", "top"],
            "{kind}"
        );
        assert!(
            all.iter().all(|found| found.length == found.path.as_str().len() as u64),
            "{kind}"
        );
        assert_eq!(
            names(&blobs.list(Some(&path("a"))).unwrap()),
            ["a/b", "a/c/d"],
            "{kind}"
        );
        assert_eq!(blobs.list(Some(&path("nothing"))).unwrap(), [], "{kind}");
        assert_eq!(blobs.folders().unwrap(), ["a", "a.b", "ab", "b"], "{kind}");
        assert_eq!(read(blobs, "b/%41.x~/1").unwrap(), b"b/%41.x~/1", "{kind}");
        assert_eq!(read(blobs, "a/c").unwrap_err().kind(), missing(kind), "{kind}");
    });
}

/// What the name of a folder is, for a reader of blobs.
fn missing(kind: &str) -> io::ErrorKind {
    match kind {
        "disk" => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::NotFound,
    }
}

#[test]
fn what_is_deleted_is_gone_and_what_was_not_there_is_no_error() {
    each(|kind, blobs| {
        let many: Vec<BlobPath> = (0..300).map(|number| path(&format!("many/{number}"))).collect();
        for at in &many {
            blobs.put_if_absent(at, b"x").unwrap();
        }
        blobs.put_if_absent(&path("kept"), b"x").unwrap();
        blobs.delete(&[]).unwrap();
        blobs.delete(&many).unwrap();
        blobs.delete(&many[..2]).unwrap();
        assert_eq!(names(&blobs.list(None).unwrap()), ["kept"], "{kind}");
        assert_eq!(blobs.folders().unwrap(), [""; 0], "{kind}");
        // A name that is free again may be taken.
        blobs.put_if_absent(&many[0], b"new").unwrap();
        assert_eq!(read(blobs, many[0].as_str()).unwrap(), b"new", "{kind}");
    });
}

#[test]
fn places_are_told_below_the_root() {
    each(|kind, blobs| {
        let (root, blob) = (blobs.describe(None), blobs.describe(Some(&path("a/b"))));
        assert_eq!(blob, format!("{root}/a/b"), "{kind}");
    });
}
