//! An Arrow array, looked at once and then read cell by cell: what all written forms share.

use super::calendar::{DAY_SECONDS, Moment, Span};
use arrow::array::{
    Array, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal256Array, FixedSizeBinaryArray,
    GenericListArray, LargeBinaryArray, LargeStringArray, OffsetSizeTrait, StringArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use cenote_statestore::forms::json;
use cenote_statestore::forms::uuid::UUID;
use cenote_statestore::{Error, ErrorKind, Result};
use std::ops::Range;

/// The cells of one array.
pub(crate) struct Cells<'a> {
    nulls: Option<NullBuffer>,
    pub(crate) values: Values<'a>,
}

/// Typed values; what stands in a NULL's place means nothing.
pub(crate) enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a Decimal256Array),
    Text(&'a StringArray),
    /// Texts of JSON and JSONB.
    Json(&'a StringArray),
    LargeText(&'a LargeStringArray),
    TextView(&'a StringViewArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    FixedBytes(&'a FixedSizeBinaryArray),
    Uuid(&'a FixedSizeBinaryArray),
    Date32(&'a [i32]),
    /// Ticks since midnight, and how many nanoseconds a tick has.
    Time32(&'a [i32], i64),
    Time64(&'a [i64], i64),
    /// Ticks since 1970 and ticks per second, without and with a zone.
    Timestamp(&'a [i64], i64),
    Timestamptz(&'a [i64], i64),
    IntervalMonths(&'a [i32]),
    IntervalDays(&'a [IntervalDayTime]),
    Interval(&'a [IntervalMonthDayNano]),
    /// Ticks and nanoseconds per tick.
    Duration(&'a [i64], i64),
    List(Ranges<'a>, Box<Cells<'a>>),
    Struct(Vec<(&'a str, Cells<'a>)>),
    /// The dictionary's values, and for each row the index of its value.
    Dictionary(Vec<usize>, Box<Cells<'a>>),
}

/// Where each list's elements lie.
pub(crate) enum Ranges<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
    Fixed(usize),
}

impl Ranges<'_> {
    pub(crate) fn of(&self, row: usize) -> Range<usize> {
        match self {
            Ranges::Small(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Ranges::Large(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Ranges::Fixed(length) => row * length..(row + 1) * length,
        }
    }
}

impl<'a> Cells<'a> {
    /// Looks at an array.
    ///
    /// # Errors
    /// `Unsupported`: the Arrow type has no written form.
    pub(crate) fn new(array: &'a dyn Array) -> Result<Cells<'a>> {
        Ok(Cells {
            nulls: array.logical_nulls(),
            values: Values::new(array)?,
        })
    }

    /// One value that is not NULL.
    pub(super) fn one(value: Values<'a>) -> Cells<'a> {
        Cells {
            nulls: None,
            values: value,
        }
    }

    /// Whether the cell is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

pub(super) fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn timestamps<'a>(array: &'a dyn Array, unit: &TimeUnit) -> &'a [i64] {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
}

fn durations<'a>(array: &'a dyn Array, unit: &TimeUnit) -> &'a [i64] {
    match unit {
        TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
    }
}

fn list<O: OffsetSizeTrait>(array: &dyn Array) -> Result<(&GenericListArray<O>, Box<Cells<'_>>)> {
    let list = array.as_list::<O>();
    Ok((list, Box::new(Cells::new(list.values().as_ref())?)))
}

impl<'a> Values<'a> {
    fn new(array: &'a dyn Array) -> Result<Values<'a>> {
        Ok(match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string()),
            DataType::Utf8View => Values::TextView(array.as_string_view()),
            DataType::Binary => Values::Bytes(array.as_binary()),
            DataType::LargeBinary => Values::LargeBytes(array.as_binary()),
            DataType::BinaryView => Values::BytesView(array.as_binary_view()),
            uuid if *uuid == UUID => Values::Uuid(array.as_fixed_size_binary()),
            DataType::FixedSizeBinary(_) => Values::FixedBytes(array.as_fixed_size_binary()),
            DataType::List(_) => {
                let (list, cells) = list::<i32>(array)?;
                Values::List(Ranges::Small(list.value_offsets()), cells)
            }
            DataType::LargeList(_) => {
                let (list, cells) = list::<i64>(array)?;
                Values::List(Ranges::Large(list.value_offsets()), cells)
            }
            DataType::FixedSizeList(_, length) => {
                let cells = Cells::new(array.as_fixed_size_list().values().as_ref())?;
                Values::List(Ranges::Fixed(length.as_usize()), Box::new(cells))
            }
            DataType::Struct(_) if json::name_of(array.data_type()).is_some() => {
                Values::Json(array.as_struct().column(0).as_string())
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let named = fields.iter().zip(columns);
                let cells = named.map(|(field, column)| Ok((field.name().as_str(), Cells::new(column.as_ref())?)));
                Values::Struct(cells.collect::<Result<_>>()?)
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                let keys = if dictionary.values().is_empty() {
                    Vec::new()
                } else {
                    dictionary.normalized_keys()
                };
                Values::Dictionary(keys, Box::new(Cells::new(dictionary.values().as_ref())?))
            }
            _ => {
                return Values::numeric(array)
                    .or_else(|| Values::temporal(array))
                    .ok_or_else(|| unsupported(array));
            }
        })
    }

    fn numeric(array: &'a dyn Array) -> Option<Values<'a>> {
        Some(match array.data_type() {
            DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Values::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Values::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Values::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal32(_, scale) => Values::Decimal32(array.as_primitive::<Decimal32Type>().values(), *scale),
            DataType::Decimal64(_, scale) => Values::Decimal64(array.as_primitive::<Decimal64Type>().values(), *scale),
            DataType::Decimal128(_, scale) => {
                Values::Decimal128(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            DataType::Decimal256(_, _) => Values::Decimal256(array.as_primitive::<Decimal256Type>()),
            _ => return None,
        })
    }

    fn temporal(array: &'a dyn Array) -> Option<Values<'a>> {
        Some(match array.data_type() {
            DataType::Date32 => Values::Date32(array.as_primitive::<Date32Type>().values()),
            DataType::Date64 => Values::Timestamp(array.as_primitive::<Date64Type>().values(), 1_000),
            DataType::Time32(TimeUnit::Second) => {
                Values::Time32(array.as_primitive::<Time32SecondType>().values(), 1_000_000_000)
            }
            DataType::Time32(TimeUnit::Millisecond) => {
                Values::Time32(array.as_primitive::<Time32MillisecondType>().values(), 1_000_000)
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                Values::Time64(array.as_primitive::<Time64MicrosecondType>().values(), 1_000)
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                Values::Time64(array.as_primitive::<Time64NanosecondType>().values(), 1)
            }
            DataType::Timestamp(unit, None) => Values::Timestamp(timestamps(array, unit), per_second(unit)),
            DataType::Timestamp(unit, Some(_)) => Values::Timestamptz(timestamps(array, unit), per_second(unit)),
            DataType::Interval(IntervalUnit::YearMonth) => {
                Values::IntervalMonths(array.as_primitive::<IntervalYearMonthType>().values())
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                Values::IntervalDays(array.as_primitive::<IntervalDayTimeType>().values())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Values::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values())
            }
            DataType::Duration(unit) => Values::Duration(durations(array, unit), 1_000_000_000 / per_second(unit)),
            _ => return None,
        })
    }

    /// The number in this row, if these are integers.
    pub(crate) fn integer(&self, row: usize) -> Option<i128> {
        Some(match self {
            Values::Int8(values) => values[row] as i128,
            Values::Int16(values) => values[row] as i128,
            Values::Int32(values) => values[row] as i128,
            Values::Int64(values) => values[row] as i128,
            Values::UInt8(values) => values[row] as i128,
            Values::UInt16(values) => values[row] as i128,
            Values::UInt32(values) => values[row] as i128,
            Values::UInt64(values) => values[row] as i128,
            _ => return None,
        })
    }

    /// The number in this row as an integer and its scale, if these are decimals of at most 38 digits.
    pub(crate) fn decimal(&self, row: usize) -> Option<(i128, i8)> {
        match self {
            Values::Decimal32(values, scale) => Some((values[row] as i128, *scale)),
            Values::Decimal64(values, scale) => Some((values[row] as i128, *scale)),
            Values::Decimal128(values, scale) => Some((values[row], *scale)),
            Values::Decimal256(array) => Some((array.value(row).to_i128()?, array.scale())),
            _ => None,
        }
    }

    /// The text in this row, if these are texts.
    pub(crate) fn text(&self, row: usize) -> Option<&'a str> {
        match self {
            Values::Text(array) | Values::Json(array) => Some(array.value(row)),
            Values::LargeText(array) => Some(array.value(row)),
            Values::TextView(array) => Some(array.value(row)),
            _ => None,
        }
    }

    /// The bytes in this row, if these are byte strings.
    pub(crate) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Values::Bytes(array) => Some(array.value(row)),
            Values::LargeBytes(array) => Some(array.value(row)),
            Values::BytesView(array) => Some(array.value(row)),
            Values::FixedBytes(array) => Some(array.value(row)),
            _ => None,
        }
    }

    /// The UUID in this row, if these are UUIDs.
    pub(crate) fn uuid(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Values::Uuid(array) => Some(array.value(row)),
            _ => None,
        }
    }

    /// The point in time in this row, if these are timestamps with or without zone.
    pub(crate) fn moment(&self, row: usize) -> Option<Moment> {
        match self {
            Values::Timestamp(ticks, per_second) | Values::Timestamptz(ticks, per_second) => {
                Some(Moment::of_ticks(ticks[row], *per_second))
            }
            _ => None,
        }
    }

    /// Nanoseconds since midnight in this row, if these are times of day.
    pub(crate) fn time_nanos(&self, row: usize) -> Option<u64> {
        let nanos = match self {
            Values::Time32(ticks, nanos) => ticks[row] as i64 * nanos,
            Values::Time64(ticks, nanos) => ticks[row].saturating_mul(*nanos),
            _ => return None,
        };
        // A day and one leap second are all that a time can hold.
        Some(nanos.clamp(0, (DAY_SECONDS + 1) * 1_000_000_000) as u64)
    }

    /// The interval in this row, if these are intervals or durations.
    pub(crate) fn span(&self, row: usize) -> Option<Span> {
        Some(match self {
            Values::IntervalMonths(months) => Span {
                months: months[row],
                ..Span::default()
            },
            Values::IntervalDays(values) => {
                let value = values[row];
                Span {
                    months: 0,
                    days: value.days,
                    nanos: value.milliseconds as i64 * 1_000_000,
                }
            }
            Values::Interval(values) => {
                let value = values[row];
                Span {
                    months: value.months,
                    days: value.days,
                    nanos: value.nanoseconds,
                }
            }
            Values::Duration(ticks, nanos) => Span {
                months: 0,
                days: 0,
                nanos: ticks[row].saturating_mul(*nanos),
            },
            _ => return None,
        })
    }
}

fn unsupported(array: &dyn Array) -> Error {
    let message = format!(
        "cannot write values of Arrow type {}: PostgreSQL has no such type",
        array.data_type()
    );
    Error::new(ErrorKind::Unsupported, "VALUE-0007", message).attempt("cast the column to text")
}
