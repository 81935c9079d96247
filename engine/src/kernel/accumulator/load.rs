//! Accumulators as their state tables had them.

use super::super::load::{StateColumns, unfit};
use super::super::values::{Value, ValueCounts, values_of};
use super::{Accumulator, State};
use arrow::array::{ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::Decimal128Type;
use cenote_statestore::{ExactFloatSum, Result};

impl Accumulator {
    /// Makes room for the state of groups below `slots`, where it is the same for each.
    pub(in super::super) fn reserve(&mut self, slots: usize) {
        match &mut self.state {
            State::Count(counts) => counts.reserve(slots),
            State::Exact { sums, counts, .. } => {
                sums.reserve(slots);
                counts.reserve(slots);
            }
            State::Float { sums, counts } => {
                super::reserve(sums, slots);
                counts.reserve(slots);
            }
            State::Spread(_) | State::Extreme { .. } | State::Elements => {}
        }
    }

    /// Takes the state of groups from its columns of the groups' table ([`Accumulator::state_columns`]).
    ///
    /// # Arguments
    /// - `group_rows`: how many rows each group has.
    pub(in super::super) fn load(
        &mut self,
        groups: &[u32],
        columns: &mut StateColumns<'_>,
        group_rows: &[i64],
    ) -> Result<()> {
        let may_exceed = self.call.may_exceed(self.argument_type.as_ref());
        match &mut self.state {
            State::Count(counts) => counts.load(groups, columns.next_longs()?.values(), group_rows),
            // They are those of the values.
            State::Extreme { .. } => drop(columns.next()?),
            State::Elements => {}
            State::Exact { sums, counts, .. } => {
                let fitting = columns.next()?.as_primitive_opt::<Decimal128Type>();
                let fitting = fitting.ok_or_else(|| unfit("a sum that is no number"))?;
                let beyond = may_exceed.then(|| binary(columns)).transpose()?;
                sums.load(groups, fitting, beyond)?;
                counts.load(groups, columns.next_longs()?.values(), group_rows);
            }
            State::Float { sums, counts } => {
                columns.next()?;
                for (group, bytes) in groups.iter().zip(binary(columns)?) {
                    let bytes = bytes.ok_or_else(|| unfit("a sum that is missing"))?;
                    sums[*group as usize] = ExactFloatSum::from_bytes(bytes)?;
                }
                counts.load(groups, columns.next_longs()?.values(), group_rows);
            }
            State::Spread(spread) => {
                let _rounded = columns.take(2);
                spread.load(groups, binary(columns)?, columns.next_longs()?.values())?;
            }
        }
        Ok(())
    }

    /// Takes kept values from their table ([`Accumulator::kept_values`]).
    ///
    /// # Arguments
    /// - `groups`: of the rows.
    /// - `columns`: those behind the groups' keys.
    pub(in super::super) fn load_values(&mut self, groups: &[u32], mut columns: StateColumns<'_>) -> Result<()> {
        let Some(values) = &mut self.values else {
            return Err(unfit("values that nothing keeps"));
        };
        let Some(order) = &self.order else {
            let kept = values_of(columns.next()?)?;
            let kept = kept
                .into_iter()
                .map(|value| value.ok_or_else(|| unfit("a NULL among values")));
            return add_all(values, groups, kept, columns.next_longs()?.values());
        };
        let width = self.call.elements.as_ref().map_or(0, |elements| elements.columns.len());
        let elements: Vec<ArrayRef> = columns.take(width);
        let elements = order.encode(&elements)?;
        let kept = elements.iter().map(|element| Ok(Value::Bytes(element.as_ref().into())));
        add_all(values, groups, kept, columns.next_longs()?.values())
    }
}

fn add_all(
    values: &mut ValueCounts,
    groups: &[u32],
    kept: impl Iterator<Item = Result<Value>>,
    counts: &[i64],
) -> Result<()> {
    for ((group, value), count) in groups.iter().zip(kept).zip(counts) {
        if values.add(*group, value?, *count)? != 1 {
            return Err(unfit("a value twice, or less than once"));
        }
    }
    Ok(())
}

fn binary<'a>(columns: &mut StateColumns<'a>) -> Result<&'a BinaryArray> {
    let bytes = columns.next()?.as_binary_opt::<i32>();
    bytes.ok_or_else(|| unfit("a sum that is no bytes"))
}
