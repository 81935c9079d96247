//! How many of a source's bad rows `cenote_catalog.errors` holds: the first ones, and how many there are is counted.
//!
//! A source whose every line is bad would fill the table, the log and the memory otherwise.

use cenote_engine::port::BadRow;

/// Rows that a source has in the table of errors at most.
pub(crate) const ROWS_MAX: usize = 10_000;

/// The rows of a source that were told.
pub(super) struct Told {
    rows: usize,
    rows_max: usize,
}

impl Told {
    /// `rows`: how many the table holds of it.
    pub(super) fn new(rows: usize) -> Told {
        Told {
            rows,
            rows_max: ROWS_MAX,
        }
    }

    /// Leaves those of `bad` that are told; the last of all says that it is.
    pub(super) fn take(&mut self, bad: &mut Vec<BadRow>) {
        let room = self.rows_max.saturating_sub(self.rows);
        let is_last = room > 0 && bad.len() >= room;
        bad.truncate(room);
        if let (true, Some(last)) = (is_last, bad.last_mut()) {
            let max = self.rows_max;
            last.reason.push_str(&format!(
                "; this is row {max} of this source here, the last: bad rows after it are counted in \
                 cenote_catalog.sources only"
            ));
        }
        self.rows += bad.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(count: usize) -> Vec<BadRow> {
        let row = |line| BadRow {
            partition: "in".into(),
            line: line as u64,
            byte_offset: 0,
            text: String::new(),
            reason: "no".into(),
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn the_first_rows_are_told_and_the_last_of_them_says_so() {
        for sizes in [vec![5], vec![2, 1, 2], vec![3, 0, 1], vec![2, 3], vec![1, 1, 1, 9]] {
            let mut told = Told { rows: 0, rows_max: 3 };
            let mut kept = Vec::new();
            for size in &sizes {
                let mut batch = bad(*size);
                told.take(&mut batch);
                kept.extend(batch);
            }
            assert_eq!(kept.len(), 3, "{sizes:?}");
            let marked: Vec<bool> = kept.iter().map(|row| row.reason.contains("the last")).collect();
            assert_eq!(marked, [false, false, true], "{sizes:?}");
        }
    }

    #[test]
    fn what_the_table_holds_already_counts() {
        let mut told = Told { rows: 3, rows_max: 3 };
        let mut batch = bad(4);
        told.take(&mut batch);
        assert_eq!(batch, []);
    }
}
