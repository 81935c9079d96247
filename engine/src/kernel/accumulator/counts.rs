//! How many values went into each group's aggregate.

/// Counts by group. While every row of every group counts, they are the operator's own counts of rows, and nothing is kept here.
#[derive(Debug, Default)]
pub(super) struct Counts(Option<Vec<i64>>);

impl Counts {
    /// Counts that will differ from those of rows.
    pub(super) fn of_some() -> Counts {
        Counts(Some(Vec::new()))
    }

    /// # Arguments
    /// - `of_rows`: how many rows each group has.
    pub(super) fn get<'a>(&'a self, of_rows: &'a [i64]) -> &'a [i64] {
        self.0.as_deref().unwrap_or(of_rows)
    }

    /// The counts to add a push to; `None`: the operator's counts of rows will do.
    ///
    /// # Arguments
    /// - `all`: whether every row of the push counts.
    /// - `of_rows`: how many rows each group has, without the push.
    pub(super) fn addable(&mut self, all: bool, of_rows: &[i64]) -> Option<&mut [i64]> {
        if all && self.0.is_none() {
            return None;
        }
        Some(self.0.get_or_insert_with(|| of_rows.to_vec()))
    }

    /// Takes counts of groups as they were, where they are not those of rows.
    pub(super) fn load(&mut self, groups: &[u32], counts: &[i64], of_rows: &[i64]) {
        let mut both = groups.iter().zip(counts);
        let are_of_rows = both.all(|(group, count)| of_rows[*group as usize] == *count);
        if let Some(own) = self.addable(are_of_rows, of_rows) {
            groups
                .iter()
                .zip(counts)
                .for_each(|(group, count)| own[*group as usize] = *count);
        }
    }

    /// Makes room for group slots below `slots`.
    pub(super) fn grow(&mut self, slots: usize) {
        if let Some(counts) = &mut self.0 {
            super::grow(counts, slots);
        }
    }

    /// Makes room for them to grow to `slots` without being moved.
    pub(super) fn reserve(&mut self, slots: usize) {
        if let Some(counts) = &mut self.0 {
            super::reserve(counts, slots);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |counts| counts.capacity() * 8)
    }
}
