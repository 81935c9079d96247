//! MIN and MAX of floats in ad-hoc queries, in PostgreSQL's order: NaN is above all numbers.
//!
//! DataFusion compares floats as IEEE 754 does, where NaN is neither above nor below. Other types are its own.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::scalar::ScalarValue;

/// `min` or `max`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    /// DataFusion's function of that name.
    inner: AggregateUDF,
}

/// The functions, to be put in the place of DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    let of = |greatest, inner| AggregateUDF::from(Extreme { greatest, inner });
    [
        of(false, AggregateUDF::from(Min::new())),
        of(true, AggregateUDF::from(Max::new())),
    ]
}

impl Extreme {
    fn of_floats(&self, data_type: &DataType) -> Option<Best> {
        matches!(data_type, DataType::Float32 | DataType::Float64).then(|| Best {
            greatest: self.greatest,
            data_type: data_type.clone(),
            found: Vec::new(),
        })
    }
}

fn has_no_extreme(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::Struct(_)) || crate::keys::keyless(data_type).is_some()
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    /// The argument's type.
    ///
    /// Types without MIN and MAX are refused here: of an error in `coerce_types` DataFusion keeps nothing.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first().filter(|argument| has_no_extreme(argument)) {
            Some(argument) => Err(crate::keys::refused(self.name(), &crate::types::type_name(argument))),
            None => self.inner.return_type(arguments),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments.first().is_some_and(has_no_extreme) {
            true => Ok(arguments.to_vec()),
            false => self.inner.coerce_types(arguments),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.of_floats(args.return_type()) {
            Some(best) => Ok(Box::new(best)),
            None => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.of_floats(args.return_type()) {
            Some(best) => Ok(Box::new(best)),
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The best float of each group; of one group as an [`Accumulator`].
#[derive(Debug)]
struct Best {
    greatest: bool,
    data_type: DataType,
    found: Vec<Option<f64>>,
}

impl Best {
    fn offer(&mut self, group: usize, value: f64) {
        let slot = &mut self.found[group];
        if slot.is_none_or(|best| {
            if self.greatest {
                is_above(value, best)
            } else {
                is_above(best, value)
            }
        }) {
            *slot = Some(value);
        }
    }

    fn offer_all(&mut self, values: &ArrayRef) -> Result<()> {
        self.found.resize(1, None);
        for value in doubles(values)?.iter().flatten() {
            self.offer(0, value);
        }
        Ok(())
    }

    fn result(&self, found: Vec<Option<f64>>) -> Result<ArrayRef> {
        Ok(cast(&Float64Array::from(found), &self.data_type)?)
    }
}

fn is_above(a: f64, b: f64) -> bool {
    a > b || (a.is_nan() && !b.is_nan())
}

fn doubles(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.offer_all(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = self.found.first().copied().flatten();
        ScalarValue::try_from_array(&self.result(vec![found])?, 0)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.found.capacity() * 16
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![Accumulator::evaluate(self)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.offer_all(&states[0])
    }
}

impl GroupsAccumulator for Best {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.found.resize(group_count, None);
        let values = doubles(&values[0])?;
        for (row, group) in groups.iter().enumerate() {
            let is_kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_kept && values.is_valid(row) {
                self.offer(*group, values.value(row));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let found = emit.take_needed(&mut self.found);
        self.result(found)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![GroupsAccumulator::evaluate(self, emit)?])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        GroupsAccumulator::update_batch(self, states, groups, filter, group_count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut single = Best {
            greatest: self.greatest,
            data_type: self.data_type.clone(),
            found: Vec::new(),
        };
        let rows: Vec<usize> = (0..values[0].len()).collect();
        GroupsAccumulator::update_batch(&mut single, values, &rows, filter, rows.len())?;
        GroupsAccumulator::state(&mut single, EmitTo::All)
    }

    fn supports_convert_to_state(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        self.found.capacity() * 16
    }
}
