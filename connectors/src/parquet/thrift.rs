//! Thrift's compact protocol, walked over without building anything.
//!
//! Parquet's footer and page headers say how long their lists and strings are; a reader that believes them
//! allocates whatever a damaged byte says. Walking first shows that everything promised is there.

/// How deep structures may be nested in each other.
const DEPTH_MAX: usize = 32;
/// How deep columns may be nested in each other.
const SCHEMA_DEPTH_MAX: usize = 100;
/// The longest fixed-length value, in bytes.
const TYPE_LENGTH_MAX: i64 = 1 << 16;

/// A type of the protocol.
type Kind = u8;
const BINARY: Kind = 8;
const LIST: Kind = 9;
const STRUCT: Kind = 12;

/// A place in encoded bytes. `None` from any method: they are not what the protocol says.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Walk<'a> {
        Walk { bytes, at: 0 }
    }

    /// Bytes walked over.
    pub(crate) fn walked(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed number.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        self.at = (end <= self.bytes.len()).then_some(end)?;
        Some(())
    }

    /// Walks over a structure; `each` may read a field's value and says whether it did.
    pub(crate) fn fields(
        &mut self,
        depth: usize,
        mut each: impl FnMut(&mut Self, i64, Kind) -> Option<bool>,
    ) -> Option<()> {
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            let kind = head & 0x0f;
            id = match head >> 4 {
                0 => self.number()?,
                step => id + i64::from(step),
            };
            // A boolean field's value is its type.
            if kind > 2 && !each(self, id, kind)? {
                self.skip(kind, depth)?;
            }
        }
    }

    /// Elements of a list, and their type.
    fn list(&mut self) -> Option<(u64, Kind)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        (count <= (self.bytes.len() - self.at) as u64).then_some((count, head & 0x0f))
    }

    fn skip(&mut self, kind: Kind, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            1..=3 => self.pass(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.pass(8),
            BINARY => {
                let len = self.varint()?;
                self.pass(len)
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            STRUCT => self.fields(depth + 1, |_, _, _| Some(false)),
            _ => None,
        }
    }
}

/// Whether a footer is whole: every list and string is there, and so are the children of every group of columns.
pub(crate) fn footer_is_whole(bytes: &[u8]) -> bool {
    let mut columns = Columns::default();
    let walked = Walk::new(bytes).fields(0, |walk, id, kind| {
        if (id, kind) != (2, LIST) {
            return Some(false);
        }
        let (count, kind) = walk.list()?;
        for _ in 0..count {
            if kind != STRUCT {
                return None;
            }
            columns.element(walk, count)?;
        }
        Some(true)
    });
    walked.is_some() && columns.open.is_empty()
}

/// The tree of columns, written as a list with the number of children at each group.
#[derive(Default)]
struct Columns {
    /// Children still to come, of each group that is open.
    open: Vec<i64>,
}

impl Columns {
    fn element(&mut self, walk: &mut Walk<'_>, elements: u64) -> Option<()> {
        let mut children = 0;
        let mut length = 0;
        walk.fields(1, |walk, id, kind| match (id, kind) {
            (2, 5) => walk.number().map(|value| length = value).map(|()| true),
            (5, 5) => walk.number().map(|value| children = value).map(|()| true),
            _ => Some(false),
        })?;
        let plausible = (0..=elements as i64).contains(&children) && (0..=TYPE_LENGTH_MAX).contains(&length);
        if !plausible || self.open.len() > SCHEMA_DEPTH_MAX {
            return None;
        }
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        self.open.push(children);
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
        Some(())
    }
}

/// The sizes in a page header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageSizes {
    /// Bytes of the header itself.
    pub(crate) header: u64,
    /// Bytes that follow it.
    pub(crate) compressed: i64,
    /// Bytes that they become.
    pub(crate) uncompressed: i64,
}

/// The sizes of the page whose header is at the beginning of `bytes`; `None` if it is not whole.
pub(crate) fn page_sizes(bytes: &[u8]) -> Option<PageSizes> {
    let mut sizes = PageSizes::default();
    let mut walk = Walk::new(bytes);
    walk.fields(0, |walk, id, kind| match (id, kind) {
        (2, 5) => walk.number().map(|value| sizes.uncompressed = value).map(|()| true),
        (3, 5) => walk.number().map(|value| sizes.compressed = value).map(|()| true),
        _ => Some(false),
    })?;
    sizes.header = walk.walked() as u64;
    Some(sizes)
}

/// The numbers at the head of a block of delta-encoded integers: values in all, and bytes that the block takes.
///
/// # Returns
/// `None` if the block is not whole.
pub(crate) fn delta_block(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut walk = Walk::new(bytes);
    let block = walk.varint()?;
    let parts = walk.varint()?;
    let values = walk.varint()?;
    walk.varint()?;
    if parts == 0 || block % parts != 0 || block > 1 << 20 {
        return None;
    }
    let part_values = block / parts;
    let mut left = values.saturating_sub(1);
    while left > 0 {
        walk.varint()?;
        let widths = bytes.get(walk.at..walk.at.checked_add(usize::try_from(parts).ok()?)?)?;
        walk.at += widths.len();
        for width in widths {
            if left == 0 {
                break;
            }
            walk.pass(u64::from(*width) * part_values / 8)?;
            left = left.saturating_sub(part_values);
        }
        if part_values == 0 {
            return None;
        }
    }
    Some((values, walk.at))
}
