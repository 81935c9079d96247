//! Is this a torn tail, or damage? Facts in, decision out.
//!
//! A crash can leave the end of the last segment half written, and that is harmless: what was not synced was never
//! acknowledged. Anything else that fails its check is damage to data that somebody was promised.
//!
//! # Rules kept here
//! 1. Before a next segment is begun, the one before it is synced: only the **last** segment can be torn.
//! 2. A crash tears the end. Where a valid frame follows, it says up to which byte the segment was durable when it
//!    was written: if that reaches beyond the bad place, the bad place was once whole.
//! 3. Frames written together, before one sync, can reach the disk in any order: then the bad place is a hole that
//!    was never written, which reads as zeros, up to the end of a sector at least. A bad place without such a hole
//!    but with valid frames after it did not come from a crash.
//! 4. A frame that holds its checksum but is out of order is damage, wherever it stands.

/// The smallest unit that a disk writes whole.
pub(super) const SECTOR: u64 = 512;

/// How a frame fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The file ends before the frame does, or no frame begins here.
    Incomplete,
    /// The frame is there but its checksum does not hold.
    Checksum,
    /// The frame is whole but is not the next in order: another was lost, or this one repeated.
    Order {
        /// The sequence number that it has.
        found: u64,
    },
}

/// What follows the bad place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Later {
    /// The furthest byte that any valid frame after the bad place knows to have been durable before it.
    pub synced: u64,
    /// Whether, between the bad place and the first valid frame after it, all bytes in some sector are zero.
    pub hole: bool,
}

/// All that is known of the first bad place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether no segment comes after this one.
    pub last_segment: bool,
    /// How the frame fails.
    pub flaw: Flaw,
    /// Byte at which it starts.
    pub offset: u64,
    /// `None`: no valid frame comes after it.
    pub later: Option<Later>,
}

/// What to do about a bad place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing from here on was ever acknowledged: cut it off.
    TornTail,
    /// Acknowledged data may be gone: refuse, and change nothing.
    Damage,
}

/// Decides.
pub(super) fn judge(facts: Facts) -> Verdict {
    let torn = match (facts.flaw, facts.later) {
        (Flaw::Order { .. }, _) => false,
        (_, None) => facts.last_segment,
        (_, Some(later)) => facts.last_segment && later.synced <= facts.offset && later.hole,
    };
    if torn { Verdict::TornTail } else { Verdict::Damage }
}

/// Whether the bytes `start..end` of a file have a sector of which they hold only zeros.
///
/// # Arguments
/// - `bytes`: the file's bytes from `start` on, at least up to `end`.
pub(super) fn has_hole(bytes: &[u8], start: u64, end: u64) -> bool {
    let mut from = start;
    while from < end {
        let to = ((from / SECTOR + 1) * SECTOR).min(end);
        if bytes[(from - start) as usize..(to - start) as usize]
            .iter()
            .all(|byte| *byte == 0)
        {
            return true;
        }
        from = to;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAWS: [Flaw; 3] = [Flaw::Incomplete, Flaw::Checksum, Flaw::Order { found: 9 }];

    /// Every combination of facts: segment, flaw, what follows.
    fn all_facts() -> Vec<Facts> {
        let mut laters = vec![None];
        for synced in [0, 99, 100, 101, u64::MAX] {
            laters.extend([false, true].map(|hole| Some(Later { synced, hole })));
        }
        let mut all = Vec::new();
        for last_segment in [false, true] {
            for flaw in FLAWS {
                all.extend(laters.iter().map(|later| Facts {
                    last_segment,
                    flaw,
                    offset: 100,
                    later: *later,
                }));
            }
        }
        all
    }

    #[test]
    fn only_these_facts_are_a_torn_tail() {
        let torn: Vec<Facts> = all_facts()
            .into_iter()
            .filter(|facts| judge(*facts) == Verdict::TornTail)
            .collect();
        let mut expected = Vec::new();
        for flaw in [Flaw::Incomplete, Flaw::Checksum] {
            let facts = Facts {
                last_segment: true,
                flaw,
                offset: 100,
                later: None,
            };
            expected.push(facts);
            for synced in [0, 99, 100] {
                expected.push(Facts {
                    later: Some(Later { synced, hole: true }),
                    ..facts
                });
            }
        }
        assert_eq!(torn, expected);
    }

    #[test]
    fn earlier_segment_is_never_torn() {
        assert!(
            all_facts()
                .iter()
                .all(|facts| facts.last_segment || judge(*facts) == Verdict::Damage)
        );
    }

    #[test]
    fn bad_place_that_was_once_durable_is_damage() {
        let durable = |facts: &&Facts| facts.later.is_some_and(|later| later.synced > facts.offset);
        let all = all_facts();
        assert_eq!(all.iter().filter(durable).count(), 2 * 3 * 2 * 2);
        assert!(all.iter().filter(durable).all(|facts| judge(*facts) == Verdict::Damage));
    }

    #[test]
    fn hole_is_a_sector_whose_share_is_all_zero() {
        let mut bytes = vec![1u8; 2000];
        assert!(!has_hole(&bytes, 100, 2100));
        bytes[412..923].fill(0);
        assert!(!has_hole(&bytes, 100, 2100), "511 zeros of the sector from 512 to 1024");
        bytes[923] = 0;
        assert!(has_hole(&bytes, 100, 2100));
        assert!(!has_hole(&[0, 1], 510, 512));
        assert!(
            has_hole(&[1, 1, 0, 1], 510, 513),
            "the sector's share may be a single byte"
        );
        assert!(!has_hole(&[], 100, 100));
    }
}
