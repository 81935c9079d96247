//! The elements of one group of an ad-hoc query, each different one once with its count.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use cenote_engine::elements::ElementOrder;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;

/// Bytes of an entry beside those of its element.
const ENTRY_BYTES: usize = 40;

#[derive(Debug)]
pub(super) struct Gather {
    order: ElementOrder,
    /// The column whose NULLs do not count.
    skips_null: Option<usize>,
    counts: HashMap<Box<[u8]>, i64>,
    bytes: usize,
}

impl Gather {
    pub(super) fn new(order: ElementOrder, skips_null: Option<usize>) -> Gather {
        Gather {
            order,
            skips_null,
            counts: HashMap::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, element: &[u8], count: i64) {
        match self.counts.get_mut(element) {
            Some(known) => *known += count,
            None => {
                self.bytes += element.len() + ENTRY_BYTES;
                self.counts.insert(element.into(), count);
            }
        }
    }
}

impl Accumulator for Gather {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let elements = self.order.encode(values).map_err(crate::provider::outside)?;
        for (row, element) in elements.iter().enumerate() {
            if self.skips_null.is_none_or(|column| values[column].is_valid(row)) {
                self.add(element.as_ref(), 1);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut elements: Vec<(&[u8], i64)> = self.counts.iter().map(|(e, count)| (e.as_ref(), *count)).collect();
        elements.sort_unstable();
        let result = self.order.results(&[elements]).map_err(crate::provider::outside)?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.bytes
    }

    /// Each element as its length, its bytes and its count.
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        for (element, count) in &self.counts {
            bytes.extend_from_slice(&(element.len() as u32).to_le_bytes());
            bytes.extend_from_slice(element);
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = cast(&states[0], &DataType::Binary)?;
        for bytes in states.as_binary::<i32>().iter().flatten() {
            let mut rest = bytes;
            while !rest.is_empty() {
                let (element, count, after) =
                    split(rest).ok_or_else(|| DataFusionError::Internal("partial elements are cut off".into()))?;
                self.add(element, count);
                rest = after;
            }
        }
        Ok(())
    }
}

/// The first element of a state, its count, and what follows.
fn split(bytes: &[u8]) -> Option<(&[u8], i64, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (element, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (count, rest) = rest.split_first_chunk::<8>()?;
    Some((element, i64::from_le_bytes(*count), rest))
}
