//! What a folder holds, looked at as a whole before anything in it is changed.
//!
//! [`survey`] only reads: it either explains every byte of the log or refuses. [`Survey::settle`] then makes the few
//! changes that are called for: it cuts a torn tail, finishes or undoes what a crash left half done.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::fault;
use super::files::{self, Files};
use super::identity::{self, Identity, LogId};
use super::segment::{self, HEADER, Listing, Reader, Segment, Step};
use super::verdict::{Facts, Flaw, Verdict, judge};
use crate::Result;
use crate::wal::frame::Purpose;

/// A torn tail that was cut when the log was opened: writes that a crash interrupted and that nobody was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: PathBuf,
    /// Its length now: where the first incomplete record began.
    pub offset: u64,
    /// Bytes that were cut off.
    pub bytes: u64,
}

/// Bytes between two waypoints of a segment, at least.
const WAYPOINT_BYTES: u64 = 1 << 20;

/// Where a record begins, so that what is before it can be left out without being read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waypoint {
    /// Sequence number of the record; of the next one where a clean close was marked here.
    pub sequence: u64,
    /// Sequence number of the first record of its segment.
    pub segment: u64,
    pub offset: u64,
}

/// The whole log, checked.
pub(super) struct Survey {
    pub identity: Identity,
    /// Segments that are kept, each with its end; never empty once settled.
    pub segments: Vec<Segment>,
    /// Sequence number of the next record.
    pub next: u64,
    /// Whether the log ends in a mark of a clean close.
    pub marked: bool,
    pub cut: Option<Cut>,
    /// Ascending.
    pub waypoints: Vec<Waypoint>,
    /// Whether `log.json` has to be written.
    unnamed: bool,
    /// Files to remove: never put in place, or left by an interrupted removal.
    leftovers: Vec<PathBuf>,
}

/// Reads and checks all of a folder, changing nothing.
///
/// # Errors
/// - `Corrupt`: a file is damaged or missing; names file and byte.
/// - `Unsupported`: a newer release wrote it.
/// - `Unavailable`: a file cannot be read.
pub(super) fn survey(folder: &Path) -> Result<Survey> {
    let Listing {
        mut segments,
        aside: mut leftovers,
    } = segment::list(folder)?;
    let (identity, unnamed) = match Identity::load(folder)? {
        Some(identity) => (identity, false),
        None => (unnamed_identity(folder, &segments)?, true),
    };
    let kept = segments.partition_point(|segment| segment.first < identity.start);
    leftovers.extend(segments.drain(..kept).map(|segment| segment.path));
    if segments.is_empty() && !unnamed {
        return Err(fault::missing_segment(
            &segment::path(folder, identity.start),
            identity.start,
            None,
        ));
    }
    let mut survey = Survey {
        identity,
        segments,
        next: identity.start,
        marked: false,
        cut: None,
        waypoints: Vec::new(),
        unnamed,
        leftovers,
    };
    for index in 0..survey.segments.len() {
        survey.check_segment(folder, index)?;
    }
    Ok(survey)
}

/// The identity of a folder without one: a new log, or one whose creation was interrupted after its first segment.
fn unnamed_identity(folder: &Path, segments: &[Segment]) -> Result<Identity> {
    match segments {
        [] => Ok(Identity {
            id: LogId::random(),
            start: 1,
        }),
        [only] if only.first == 1 && only.end == HEADER as u64 => Ok(Identity {
            id: Reader::open(only, None)?.log(),
            start: 1,
        }),
        _ => Err(fault::damaged_file(
            &identity::path(folder),
            "the file is missing, but the log's segments are there",
        )),
    }
}

impl Survey {
    fn check_segment(&mut self, folder: &Path, index: usize) -> Result<()> {
        let last = index + 1 == self.segments.len();
        let segment = &mut self.segments[index];
        if segment.first > self.next {
            return Err(fault::missing_segment(
                &segment::path(folder, self.next),
                self.next,
                Some(segment.first),
            ));
        }
        if segment.first < self.next {
            return Err(fault::repeated_segment(&segment.path, segment.first, self.next));
        }
        let mut reader = Reader::open(segment, Some(self.identity.id))?;
        self.marked = false;
        let mut next_waypoint = HEADER as u64 + WAYPOINT_BYTES;
        loop {
            if reader.offset() >= next_waypoint {
                next_waypoint = reader.offset() + WAYPOINT_BYTES;
                self.waypoints.push(Waypoint {
                    sequence: self.next,
                    segment: segment.first,
                    offset: reader.offset(),
                });
            }
            match reader.step(self.next)? {
                Step::End => return Ok(()),
                Step::Frame(head) => {
                    self.marked = head.purpose == Purpose::Mark;
                    self.next += u64::from(!self.marked);
                }
                Step::Bad(flaw) => {
                    let facts = facts(&reader, flaw, last)?;
                    if judge(facts) == Verdict::Damage {
                        return Err(fault::damaged_record(&segment.path, facts.offset, self.next, flaw));
                    }
                    let bytes = segment.end - facts.offset;
                    self.cut = Some(Cut {
                        file: segment.path.clone(),
                        offset: facts.offset,
                        bytes,
                    });
                    segment.end = facts.offset;
                    return Ok(());
                }
            }
        }
    }

    /// Makes the folder what the survey says, and opens the last segment for appending.
    ///
    /// The last segment is synced even where nothing is cut: its end may never have reached the disk, and from now on
    /// it counts.
    ///
    /// # Errors
    /// `Unavailable`: a file cannot be written. Opening again starts over.
    pub(super) fn settle(&mut self, folder: &Path, files: &dyn Files) -> Result<File> {
        for path in &self.leftovers {
            files.remove(path).map_err(|error| fault::io("remove", path, error))?;
        }
        let file = match self.segments.last() {
            Some(last) => reopen(last, self.cut.is_some(), files)?,
            None => {
                let (segment, file) = create_segment(folder, self.identity.id, self.next, files)?;
                self.segments.push(segment);
                file
            }
        };
        if self.unnamed {
            self.identity.store(folder, files)?;
        }
        Ok(file)
    }
}

fn facts(reader: &Reader, flaw: Flaw, last_segment: bool) -> Result<Facts> {
    let later = match (flaw, last_segment) {
        (Flaw::Order { .. }, _) | (_, false) => None,
        _ => reader.later()?,
    };
    Ok(Facts {
        last_segment,
        flaw,
        offset: reader.offset(),
        later,
    })
}

fn reopen(segment: &Segment, cut: bool, files: &dyn Files) -> Result<File> {
    let path = &segment.path;
    let file = File::options()
        .append(true)
        .open(path)
        .map_err(|error| fault::io("open", path, error))?;
    if cut {
        files
            .truncate(&file, segment.end)
            .map_err(|error| fault::io("truncate", path, error))?;
    }
    files.sync(&file).map_err(|error| fault::io("sync", path, error))?;
    Ok(file)
}

/// Puts an empty segment in place, durably.
pub(super) fn create_segment(folder: &Path, log: LogId, first: u64, files: &dyn Files) -> Result<(Segment, File)> {
    let path = segment::path(folder, first);
    let file = files::publish(files, &path, &segment::header(log, first))
        .map_err(|error| fault::io("create", &path, error))?;
    Ok((
        Segment {
            path,
            first,
            end: HEADER as u64,
        },
        file,
    ))
}
