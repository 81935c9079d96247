//! Reads a log back, record by record, in the order in which they were appended.

use std::collections::VecDeque;

use super::fault;
use super::frame::{Head, Purpose};
use super::identity::LogId;
use super::record::{self, Record};
use super::recovery::{Cut, Survey, Waypoint};
use super::segment::{Reader, Segment, Step};
use crate::{Epoch, Result};

/// The records that a log held when it was opened, oldest first.
///
/// Iterates lazily and holds one record in memory at a time. Every record is checked again as it is read. After an
/// error there are no more records.
#[derive(Debug)]
pub struct Replay {
    segments: VecDeque<Segment>,
    reader: Option<Reader>,
    log: LogId,
    next: u64,
    /// The first record that is wanted.
    from: u64,
    waypoints: Vec<Waypoint>,
    cut: Option<Cut>,
}

impl Replay {
    pub(super) fn new(survey: Survey) -> Replay {
        let Survey {
            identity,
            segments,
            cut,
            waypoints,
            ..
        } = survey;
        Replay {
            segments: segments.into(),
            reader: None,
            log: identity.id,
            next: identity.start,
            from: identity.start,
            waypoints,
            cut,
        }
    }

    /// Leaves out the records before one, which were checked when the log was opened: they are not read again, but for a few.
    pub fn starting_at(mut self, sequence: u64) -> Replay {
        self.from = self.from.max(sequence);
        while self.segments.get(1).is_some_and(|second| second.first <= self.from) {
            self.segments.pop_front();
        }
        if let Some(first) = self.segments.front() {
            self.next = self.next.max(first.first);
        }
        self
    }

    fn open(&mut self, segment: &Segment) -> Result<Reader> {
        let mut reader = Reader::open(segment, Some(self.log))?;
        let reached = |waypoint: &&Waypoint| waypoint.segment == segment.first && waypoint.sequence <= self.from;
        if let Some(waypoint) = self.waypoints.iter().rfind(reached) {
            reader.go_to(waypoint.offset)?;
            self.next = waypoint.sequence;
        }
        Ok(reader)
    }

    /// The sequence number of the next record to come.
    pub fn next_lsn(&self) -> u64 {
        self.next
    }

    /// The torn tail that was cut, if there was one: worth a line in the server's log.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(segment) = self.segments.pop_front() else {
                    return Ok(None);
                };
                self.reader = Some(self.open(&segment)?);
                continue;
            };
            let offset = reader.offset();
            match reader.step(self.next)? {
                Step::End => self.reader = None,
                Step::Frame(head) if head.purpose == Purpose::Mark => {}
                Step::Frame(_) if self.next < self.from => self.next += 1,
                Step::Frame(head) => {
                    let record = decode(reader, offset, head)?;
                    self.next += 1;
                    return Ok(Some(record));
                }
                Step::Bad(flaw) => return Err(fault::damaged_record(&reader.segment().path, offset, self.next, flaw)),
            }
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let outcome = self.advance();
        if outcome.is_err() {
            self.reader = None;
            self.segments.clear();
        }
        outcome.transpose()
    }
}

fn decode(reader: &Reader, offset: u64, head: Head) -> Result<Record> {
    let (header, streams) = reader.body().split_at(head.header_length as usize);
    let batches = record::decode_batches(streams)
        .map_err(|cause| fault::unreadable_record(&reader.segment().path, offset, cause))?;
    Ok(Record {
        epoch: Epoch(head.epoch),
        kind: head.kind,
        header: header.to_vec(),
        batches,
    })
}
