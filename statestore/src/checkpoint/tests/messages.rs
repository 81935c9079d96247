//! The whole text of each error, once.

use super::*;
use crate::checkpoint::document::Flaw;
use crate::checkpoint::fault;

fn told(error: Error) -> String {
    format!("{} {:?} {}", error.render(), error.kind(), error.state())
}

#[test]
fn errors_say_what_was_found_and_what_to_do() {
    let disk = LocalDisk::new("ckpt");
    let id = CheckpointId::parse("20261130T151923.123Z-9f3a01bc").unwrap();
    let path = BlobPath::parse("20261130T151923.123Z-9f3a01bc/manifest.json").unwrap();
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let cases = [
        (
            fault::foreign(&disk, "a1", "b2"),
            "error[CKPT-0001]: cannot keep checkpoints in `ckpt`: it belongs to another server
   belongs to: a1
  this server: b2
          try: choose another place, or start with the data directory that it belongs to; if that is lost for good, with an empty one and --take-over Invalid 55000",
        ),
        (
            fault::damaged(&disk, &path, "it fails its checksum"),
            "error[CKPT-0002]: cannot read `ckpt/20261130T151923.123Z-9f3a01bc/manifest.json`: it fails its checksum
  try: restore the file from a copy, or use an older checkpoint: `cenote verify` names all that is damaged Corrupt XX001",
        ),
        (
            fault::flawed(&disk, &path, Flaw::Newer(2)),
            "error[CKPT-0003]: cannot read `ckpt/20261130T151923.123Z-9f3a01bc/manifest.json`: it has format version 2
  supported: versions up to 1
        try: use the release of Cenote that wrote it, or a newer one Unsupported 0A000",
        ),
        (
            fault::io("write", "ckpt/server.json", full),
            "error[CKPT-0004]: cannot write `ckpt/server.json`: no storage space Unavailable 58030",
        ),
        (
            fault::lost(&disk, &path, "is not what was written"),
            "error[CKPT-0005]: cannot publish checkpoint: `ckpt/20261130T151923.123Z-9f3a01bc/manifest.json` is not what was written
  try: look at the disk or the bucket: it said that the write was done. The next checkpoint writes anew Unavailable 58030",
        ),
        (
            fault::missing(&disk, "x", "that is no name of a checkpoint"),
            "error[CKPT-0006]: cannot open checkpoint x in `ckpt`: that is no name of a checkpoint
  try: `cenote state ls --from ROOT` opens the newest one Invalid 02000",
        ),
        (
            fault::no_table(&id, "t", &["a".into(), "b".into()]),
            "error[CKPT-0007]: cannot read `t` in checkpoint 20261130T151923.123Z-9f3a01bc: there is no such table
  tables: a, b Invalid 42P01",
        ),
        (
            fault::unstorable("t", "c", "has type Null"),
            "error[CKPT-0008]: cannot write table `t` to a checkpoint: column `c` has type Null Unsupported 0A000",
        ),
        (
            fault::savepoint("drop", "s", "there is none of that name"),
            "error[CKPT-0009]: cannot drop savepoint \"s\": there is none of that name Invalid 42704",
        ),
        (
            fault::spoilt(&id, &Error::bug("it broke")),
            "error[CKPT-0010]: cannot publish checkpoint 20261130T151923.123Z-9f3a01bc: a part of it was not written
  first failure: it broke
            try: the next checkpoint writes anew; nothing was lost Unavailable 58030",
        ),
        (
            fault::uncollected(&fault::damaged(&disk, &path, "it is missing")),
            "error[CKPT-0011]: cannot delete old checkpoints: the files that one of them needs are not known
  cause: cannot read `ckpt/20261130T151923.123Z-9f3a01bc/manifest.json`: it is missing
    try: restore that manifest from a copy, or remove the folder of its checkpoint Corrupt XX001",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(told(error), expected);
    }
}
