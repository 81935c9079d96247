//! Which kept values have changed since a checkpoint.

use super::super::not_noted;
use super::super::values::{Value, ValueCounts};
use super::Accumulator;
use arrow::array::ArrayRef;
use cenote_statestore::Result;

/// Identities of kept values, and how many they are.
pub(super) type Identities = (Vec<ArrayRef>, usize);

/// Kept values that have changed.
pub(in super::super) struct ChangedValues {
    /// Groups, columns of values, counts.
    pub(in super::super) there: (Vec<u32>, Vec<ArrayRef>, Vec<i64>),
    /// Groups that are there, and columns of values that they have not any more.
    pub(in super::super) gone: (Vec<u32>, Vec<ArrayRef>),
    /// Keys of groups that went, with columns of values; they may have come back.
    pub(in super::super) forgotten: Vec<Identities>,
}

impl Accumulator {
    /// Notes from here on which kept values change.
    pub(in super::super) fn note_changed_values(&mut self) {
        self.forgotten.clear();
        if let Some(values) = &mut self.values {
            values.note_changes();
        }
    }

    /// Notes that groups go, before their slots are others'.
    ///
    /// # Arguments
    /// - `keys`: gives the key columns of groups.
    pub(in super::super) fn note_gone(&mut self, groups: &[u32], keys: impl Fn(&[u32]) -> Vec<ArrayRef>) -> Result<()> {
        let Some(values) = &mut self.values else {
            return Ok(());
        };
        let (mut of, mut gone) = (Vec::new(), Vec::new());
        for group in groups {
            gone.extend(values.take_changed_of(*group).into_iter().map(Some));
            of.resize(gone.len(), *group);
        }
        if !of.is_empty() {
            let columns = [keys(&of), self.value_columns(&gone)?].concat();
            self.forgotten.push((columns, of.len()));
        }
        Ok(())
    }

    /// Takes what has changed of the kept values.
    pub(in super::super) fn take_changed_values(&mut self) -> Result<ChangedValues> {
        let changed = self.values.as_mut().and_then(ValueCounts::take_changed);
        let changed = changed.ok_or_else(not_noted)?;
        let (there, gone): (Vec<_>, Vec<_>) = changed.into_iter().partition(|(_, _, count)| *count > 0);
        let split = |entries: Vec<(u32, Value, i64)>| {
            let (mut groups, mut values, mut counts) = (Vec::new(), Vec::new(), Vec::new());
            for (group, value, count) in entries {
                groups.push(group);
                values.push(Some(value));
                counts.push(count);
            }
            Ok::<_, cenote_statestore::Error>((groups, self.value_columns(&values)?, counts))
        };
        let ((gone_of, gone_values, _), there) = (split(gone)?, split(there)?);
        Ok(ChangedValues {
            there,
            gone: (gone_of, gone_values),
            forgotten: std::mem::take(&mut self.forgotten),
        })
    }
}
