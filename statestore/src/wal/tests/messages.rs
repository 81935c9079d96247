//! The whole text of each error, once.

use std::path::PathBuf;

use super::*;
use crate::wal::verdict::Flaw;

#[test]
fn errors_read_as_promised() {
    let (folder, segment) = (
        Path::new("data/wal"),
        PathBuf::from("data/wal/00000000000000000007.wal"),
    );
    let failed = || io::Error::from(io::ErrorKind::StorageFull);
    let schema = arrow::error::ArrowError::IpcError("bytes follow the last stream".into());
    let errors = [
        fault::locked(folder, "4711"),
        fault::damaged_record(&segment, 40, 7, Flaw::Checksum),
        fault::damaged_record(&segment, 40, 7, Flaw::Order { found: 9 }),
        fault::unreadable_record(&segment, 40, schema),
        fault::missing_segment(&segment, 7, Some(12)),
        fault::missing_segment(&segment, 7, None),
        fault::repeated_segment(&segment, 7, 9),
        fault::newer_format(&segment, 3),
        fault::damaged_file(&segment, "it belongs to another log"),
        fault::io("sync", &segment, failed()),
        fault::poisoned(folder, &fault::io("sync", &segment, failed())),
        fault::unwritable(&record(8), "its header is longer than 4 GiB"),
    ];
    let text: Vec<String> = errors
        .iter()
        .map(|error| format!("{} {}", error.state(), error.render()))
        .collect();
    assert_eq!(text.join("\n"), GOLDEN.trim());
}

const GOLDEN: &str = r#"
55006 error[WAL-0001]: cannot open write-ahead log `data/wal`: it is in use
  process: 4711
      try: stop that process, or choose another data directory
XX001 error[WAL-0002]: cannot read `data/wal/00000000000000000007.wal` at byte 40: a record fails its checksum
  expected: record 7
       try: restore the file from a copy: it was whole once, and nothing was changed in it now
XX001 error[WAL-0002]: cannot read `data/wal/00000000000000000007.wal` at byte 40: a record is out of order
  expected: record 7
     found: record 9
       try: restore the file from a copy: it was whole once, and nothing was changed in it now
XX001 error[WAL-0009]: cannot read `data/wal/00000000000000000007.wal` at byte 40: its batches do not decode: Ipc error: bytes follow the last stream
  try: restore the file from a copy
XX001 error[WAL-0003]: cannot open write-ahead log `data/wal`: segment `00000000000000000007.wal` is missing
  records lost: 7 to 11
           try: restore the segment from a copy: nothing was changed in the folder
XX001 error[WAL-0003]: cannot open write-ahead log `data/wal`: segment `00000000000000000007.wal` is missing
  records lost: from 7
           try: restore the segment from a copy: nothing was changed in the folder
XX001 error[WAL-0010]: cannot read `data/wal/00000000000000000007.wal`: it repeats records of the segment before it
  starts at: record 7
   expected: record 9
        try: restore the folder from a copy: nothing was changed in it
0A000 error[WAL-0004]: cannot read `data/wal/00000000000000000007.wal`: it has format version 3
  supported: versions up to 1
        try: use the release of Cenote that wrote it, or a newer one
XX001 error[WAL-0005]: cannot read `data/wal/00000000000000000007.wal` at byte 0: it belongs to another log
  try: restore the file from a copy: nothing was changed in the folder
58030 error[WAL-0006]: cannot sync `data/wal/00000000000000000007.wal`: no storage space
58030 error[WAL-0007]: cannot append to write-ahead log `data/wal`: an earlier write to it failed
  first failure: cannot sync `data/wal/00000000000000000007.wal`: no storage space
            try: restart: what was acknowledged is on disk and is read back
0A000 error[WAL-0008]: cannot append a record of epoch 4: its header is longer than 4 GiB
"#;
