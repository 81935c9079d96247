//! STDDEV, VARIANCE and their kin: exact until the result is rounded once, in views and in ad-hoc queries alike.
//!
//! Result types are PostgreSQL's: NUMERIC of exact numbers, DOUBLE PRECISION of floats. A NUMERIC has 16 digits after
//! the point, as an average has, fewer where the whole digits that the argument's type may give need the room.
//!
//! # Not here
//! The sums ([`crate::sums`], `cenote_statestore::ExactMoments`).

use crate::functions::summed_type;
use crate::sums::{DistinctSum, ExactSpread, FloatSpread, GroupedSums, Reading, Sum, SumResult, Total};
use crate::types::NUMERIC_DIGITS_MAX;
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::Spread;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

/// Fractional digits of a result, where its whole digits leave room.
const DIGITS: u8 = 16;

/// Whole digits that room is kept for at the expense of fractional digits, if the argument may give them.
const WHOLE_DIGITS: u8 = 28;

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spreading {
    name: &'static str,
    spread: Spread,
    signature: Signature,
    aliases: Vec<String>,
}

/// The functions, to be put in the place of DataFusion's, under all names of those.
pub(crate) fn functions() -> [AggregateUDF; 4] {
    let of = |name, sample, root, aliases: &[&str]| {
        AggregateUDF::from(Spreading {
            name,
            spread: Spread { sample, root },
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: aliases.iter().map(|alias| alias.to_string()).collect(),
        })
    };
    [
        of("stddev_samp", true, true, &["stddev"]),
        of("stddev_pop", false, true, &[]),
        of("var_samp", true, false, &["variance", "var", "var_sample"]),
        of("var_pop", false, false, &["var_population"]),
    ]
}

impl Spreading {
    fn result(&self, args: &AccumulatorArgs) -> SumResult {
        let scale = match args.expr_fields.first().map(|field| field.data_type()) {
            Some(DataType::Decimal128(_, scale)) => *scale,
            _ => 0,
        };
        SumResult {
            reading: Reading::Spread(self.spread),
            scale,
            data_type: args.return_type().clone(),
        }
    }

    fn one<T: Total>(&self, args: &AccumulatorArgs) -> Box<dyn Accumulator> {
        match args.is_distinct {
            true => Box::new(DistinctSum::<T>::new(self.result(args))),
            false => Box::new(Sum::<T>::new(self.result(args))),
        }
    }

    fn of_one<'a>(&self, arguments: &'a [DataType]) -> Result<&'a DataType> {
        match arguments {
            [argument] => Ok(argument),
            _ => Err(DataFusionError::Plan(format!("{} takes one argument", self.name))),
        }
    }
}

impl AggregateUDFImpl for Spreading {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![summed_type(self.name, self.of_one(arguments)?)?])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(result_type(self.of_one(arguments)?, self.spread))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match args.return_type().is_floating() {
            true => self.one::<FloatSpread>(&args),
            false => self.one::<ExactSpread>(&args),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(crate::sums::state_fields(args.name))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let result = self.result(&args);
        Ok(match args.return_type().is_floating() {
            true => Box::new(GroupedSums::<FloatSpread>::new(result)),
            false => Box::new(GroupedSums::<ExactSpread>::new(result)),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The type of a variance or deviation of values of a type.
fn result_type(argument: &DataType, spread: Spread) -> DataType {
    let (whole, own) = match argument {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => return DataType::Float64,
        DataType::Decimal128(precision, scale) => {
            let own = (*scale).max(0) as u8;
            (precision.saturating_sub(own), own)
        }
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (5, 0),
        DataType::UInt16 | DataType::Int32 => (10, 0),
        _ => (19, 0),
    };
    // A variance has the square of the values' unit.
    let whole = if spread.root { whole } else { whole.saturating_mul(2) };
    let room = NUMERIC_DIGITS_MAX - whole.min(WHOLE_DIGITS);
    DataType::Decimal128(NUMERIC_DIGITS_MAX, DIGITS.min(room).max(own) as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_room_for_the_whole_digits_that_the_argument_may_give() {
        let digits = |argument: DataType, root| match result_type(&argument, Spread { sample: true, root }) {
            DataType::Decimal128(38, scale) => scale,
            other => panic!("{other}"),
        };
        assert_eq!(digits(DataType::Int16, false), 16);
        assert_eq!(digits(DataType::Int32, false), 16);
        assert_eq!(digits(DataType::Int64, false), 10);
        assert_eq!(digits(DataType::Int64, true), 16);
        assert_eq!(digits(DataType::Decimal128(10, 2), false), 16);
        assert_eq!(digits(DataType::Decimal128(38, 10), true), 10);
        assert_eq!(digits(DataType::Decimal128(38, 30), false), 30);
        assert_eq!(
            result_type(
                &DataType::Float32,
                Spread {
                    sample: true,
                    root: true
                }
            ),
            DataType::Float64
        );
    }
}
