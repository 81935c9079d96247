//! Functions whose result can be far larger than their arguments, refused before they ask for the memory.
//!
//! Memory that cannot be had ends the process, and a view would do so again at each start. PostgreSQL has the same
//! errors (54000) at 1 GiB a value; here the bound is on what one batch of rows asks for
//! ([`BATCH_BYTES_MAX`]), or on one value where the arguments tell only how long it can be at most ([`VALUE_BYTES_MAX`]).

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use cenote_statestore::{Error, ErrorKind};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// Bytes that the results of one batch may take.
const BATCH_BYTES_MAX: u128 = 256 << 20;

/// Bytes that one result may take at most.
const VALUE_BYTES_MAX: u128 = 1 << 30;

/// How a result grows with the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument as often as the second says; bytes of a repetition, `None`: those of the first argument.
    Repeated(Option<u128>),
    /// The third argument where the second is found in the first.
    Replaced,
    /// The third argument where the pattern matches, with what matched where it says so.
    Matched,
    /// The second argument between the elements of the first, the third for those that are NULL.
    Delimited,
    /// The values from the first argument to the second.
    Series,
}

const GROWING: [(&str, Growth); 10] = [
    ("repeat", Growth::Repeated(None)),
    ("lpad", Growth::Repeated(Some(4))),
    ("rpad", Growth::Repeated(Some(4))),
    ("array_repeat", Growth::Repeated(Some(16))),
    ("array_resize", Growth::Repeated(Some(16))),
    ("replace", Growth::Replaced),
    ("regexp_replace", Growth::Matched),
    ("array_to_string", Growth::Delimited),
    ("generate_series", Growth::Series),
    ("range", Growth::Series),
];

/// Puts bounded functions in the place of DataFusion's.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, growth) in GROWING {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, growth })))?;
    }
    Ok(())
}

/// A function whose result can be far longer than its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    /// Bytes that each result takes at most.
    fn bytes(&self, args: &ScalarFunctionArgs) -> Result<Vec<u128>> {
        let are_constants = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if are_constants { 1 } else { args.number_rows };
        let args: Vec<ArrayRef> = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_>>()?;
        Ok(match (self.growth, args.as_slice()) {
            (Growth::Repeated(unit), [first, times, ..]) => repeated(unit, first, times)?,
            (Growth::Replaced, [texts, from, to]) => replaced(&lengths(texts)?, &lengths(from)?, &lengths(to)?),
            (Growth::Matched, [texts, _, to, ..]) => matched(&lengths(texts)?, to)?,
            (Growth::Delimited, [lists, between @ ..]) => delimited(lists, between)?,
            (Growth::Series, ends) => series(ends)?,
            _ => Vec::new(),
        })
    }

    /// Refuses what asks for too much.
    fn check(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let bytes = self.bytes(args)?;
        let is_exact = matches!(self.growth, Growth::Repeated(_) | Growth::Series);
        let (found, limit, of) = match is_exact {
            true => (bytes.iter().sum(), BATCH_BYTES_MAX, "the rows of one batch"),
            false => (bytes.into_iter().max().unwrap_or(0), VALUE_BYTES_MAX, "a value"),
        };
        if found <= limit {
            return Ok(());
        }
        let message = format!("cannot compute {}(): requested length too large", self.name());
        let error = Error::new(ErrorKind::Invalid, "EVAL-0003", message).sqlstate("54000");
        let error = error
            .fact("bytes", found)
            .fact("limit", format!("{limit} bytes for {of}"));
        Err(crate::provider::outside(error))
    }
}

fn repeated(unit: Option<u128>, first: &ArrayRef, times: &ArrayRef) -> Result<Vec<u128>> {
    let times = cast(times, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    let units = match unit {
        Some(unit) => vec![unit; times.len()],
        None => lengths(first)?,
    };
    let rows = units.into_iter().enumerate().filter(|(row, _)| times.is_valid(*row));
    Ok(rows.map(|(row, unit)| times.value(row).max(0) as u128 * unit).collect())
}

fn replaced(texts: &[u128], from: &[u128], to: &[u128]) -> Vec<u128> {
    let rows = texts.iter().zip(from).zip(to);
    rows.map(|((text, from), to)| match from {
        0 => *text,
        from => text + text / from * to,
    })
    .collect()
}

fn matched(texts: &[u128], to: &ArrayRef) -> Result<Vec<u128>> {
    let to = cast(to, &DataType::Utf8)?;
    let rows = texts.iter().zip(to.as_string::<i32>());
    let grown = rows.map(|(text, to)| {
        // A reference gives what matched, and all matches are no longer than the text.
        let references = to.map_or(0, |to| to.matches('\\').count()) as u128;
        let length = to.map_or(0, str::len) as u128;
        text + (text + 1) * length + references * text
    });
    Ok(grown.collect())
}

fn delimited(lists: &ArrayRef, between: &[ArrayRef]) -> Result<Vec<u128>> {
    let mut units = vec![0u128; lists.len()];
    for texts in between {
        let lengths = lengths(texts)?;
        units.iter_mut().zip(lengths).for_each(|(unit, length)| *unit += length);
    }
    let elements = |row: usize| match lists.data_type() {
        DataType::List(_) => lists.as_list::<i32>().value_length(row) as u128,
        DataType::LargeList(_) => lists.as_list::<i64>().value_length(row) as u128,
        _ => 0,
    };
    Ok(units
        .iter()
        .enumerate()
        .map(|(row, unit)| elements(row) * unit)
        .collect())
}

/// Bytes of the values from the first end to the second; of one end, from 0.
fn series(ends: &[ArrayRef]) -> Result<Vec<u128>> {
    let (from, to, step) = match ends {
        [to] => (None, ordinals(to)?, None),
        [from, to, rest @ ..] => (Some(ordinals(from)?), ordinals(to)?, rest.first()),
        [] => return Ok(Vec::new()),
    };
    let bytes = |row: usize| {
        let is_known = ends.iter().all(|end| end.is_valid(row));
        let first = from.as_ref().map_or(0, |from| from[row]);
        match (to[row] - first, step.map_or(1, |step| step_of(step, row))) {
            (span, step) if is_known && step != 0 && (span < 0) == (step < 0) => {
                (span.unsigned_abs() / step.unsigned_abs() + 1) * 8
            }
            _ => 0,
        }
    };
    Ok((0..to.len()).map(bytes).collect())
}

/// Numbers as they are; dates and timestamps in nanoseconds.
fn ordinals(end: &ArrayRef) -> Result<Vec<i128>> {
    let (numbers, unit) = match end.data_type() {
        DataType::Date32 => (cast(end, &DataType::Int32)?, DAY),
        DataType::Timestamp(_, zone) => {
            let nanoseconds = cast(end, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
            (nanoseconds, 1)
        }
        _ => (end.clone(), 1),
    };
    let numbers = cast(&numbers, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>().values().iter();
    Ok(numbers.map(|number| *number as i128 * unit).collect())
}

/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

/// The step of a series, in its own unit or in nanoseconds; a month has 28 days at least.
fn step_of(step: &ArrayRef, row: usize) -> i128 {
    match step.data_type() {
        DataType::Int64 => step.as_primitive::<Int64Type>().value(row) as i128,
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => {
            let step = step.as_primitive::<IntervalMonthDayNanoType>().value(row);
            (step.months as i128 * 28 + step.days as i128) * DAY + step.nanoseconds as i128
        }
        _ => 1,
    }
}

/// Bytes of each text.
fn lengths(texts: &ArrayRef) -> Result<Vec<u128>> {
    let texts = cast(texts, &DataType::LargeUtf8)?;
    let texts = texts.as_string::<i64>();
    Ok(texts.iter().map(|text| text.map_or(0, str::len) as u128).collect())
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arguments)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args)?;
        self.inner.invoke_with_args(args)
    }
}
