//! The frame around each entry of a segment: where it starts and ends, its place in the order, its checksum.
//!
//! The checksum covers the whole frame behind it and is seeded with the log's identity, the segment and the frame's
//! own offset, so a frame is valid only where it was written: a copy of it elsewhere, inside a row of bytes or in
//! another log, is not.
//!
//! Layout, little-endian, [`HEAD`] bytes and then the body:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | [`MAGIC`] |
//! | 4 | 4 | CRC-32 (IEEE) of the identity, the segment's first sequence number, the frame's offset, and the frame from byte 8 |
//! | 8 | 8 | length of the frame, head included |
//! | 16 | 8 | sequence number: dense over records; of the next record for a mark |
//! | 24 | 8 | synced: bytes of this segment that were durable when this frame was written |
//! | 32 | 8 | epoch |
//! | 40 | 4 | length of the caller's header, the first part of the body |
//! | 44 | 1 | the caller's kind |
//! | 45 | 1 | [`Purpose`] |
//! | 46 | 2 | zero |

use super::identity::LogId;

pub(super) const MAGIC: [u8; 4] = *b"CnRc";
/// Bytes of a frame before its body.
pub(super) const HEAD: usize = 48;
const CHECKED_FROM: usize = 8;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Holds a record.
    Record,
    /// Says that all before it is durable; written by a clean close, it holds nothing.
    Mark,
}

/// Where a frame is: part of its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub log: LogId,
    /// Sequence number of the first record of the segment.
    pub segment: u64,
    pub offset: u64,
}

/// The fields of a frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub sequence: u64,
    pub synced: u64,
    pub epoch: u64,
    pub header_length: u32,
    pub kind: u8,
    pub purpose: Purpose,
}

/// Closes the frame that starts at `start` of `buffer`, whose body was appended after [`HEAD`] bytes of room.
pub(super) fn close(buffer: &mut [u8], start: usize, place: Place, head: Head) {
    let frame = &mut buffer[start..];
    let length = frame.len() as u64;
    frame[..4].copy_from_slice(&MAGIC);
    frame[8..16].copy_from_slice(&length.to_le_bytes());
    frame[16..24].copy_from_slice(&head.sequence.to_le_bytes());
    frame[24..32].copy_from_slice(&head.synced.to_le_bytes());
    frame[32..40].copy_from_slice(&head.epoch.to_le_bytes());
    frame[40..44].copy_from_slice(&head.header_length.to_le_bytes());
    frame[44] = head.kind;
    frame[45] = match head.purpose {
        Purpose::Record => 0,
        Purpose::Mark => 1,
    };
    let checksum = checksum(place, &frame[CHECKED_FROM..]);
    frame[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The length that a frame's head claims; `None` if the head is not one, or the frame would not fit into `room`.
pub(super) fn length(head: &[u8; HEAD], room: u64) -> Option<usize> {
    let length = u64_at(head, 8);
    (head[..4] == MAGIC && length >= HEAD as u64 && length <= room).then_some(length as usize)
}

/// The head of a whole frame, if its checksum holds at that place.
pub(super) fn verified(frame: &[u8], place: Place) -> Option<Head> {
    let stored = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
    if stored != checksum(place, &frame[CHECKED_FROM..]) {
        return None;
    }
    let head = Head {
        sequence: u64_at(frame, 16),
        synced: u64_at(frame, 24),
        epoch: u64_at(frame, 32),
        header_length: u32::from_le_bytes([frame[40], frame[41], frame[42], frame[43]]),
        kind: frame[44],
        purpose: match frame[45] {
            0 => Purpose::Record,
            1 => Purpose::Mark,
            _ => return None,
        },
    };
    (head.header_length as usize <= frame.len() - HEAD).then_some(head)
}

fn checksum(place: Place, checked: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.log.0);
    hasher.update(&place.segment.to_le_bytes());
    hasher.update(&place.offset.to_le_bytes());
    hasher.update(checked);
    hasher.finalize()
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}
