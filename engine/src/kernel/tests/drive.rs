//! Drives a kernel epoch by epoch, as the dataflow does, and holds it to the rules of every kernel.

use crate::kernel::Kernel;
use crate::rows::{Bag, add, add_changes, bag, rows};
use arrow::array::ArrayRef;
use cenote_statestore::{Changes, Epoch, Result};

pub(super) struct Drive<K> {
    pub(super) kernel: K,
    /// All output so far, added up.
    pub(super) contents: Bag,
    pub(super) epoch: u64,
}

impl<K: Kernel> Drive<K> {
    pub(super) fn new(kernel: K) -> Drive<K> {
        Drive {
            kernel,
            contents: Bag::new(),
            epoch: 0,
        }
    }

    /// Runs one epoch.
    ///
    /// # Returns
    /// Its output, which is checked to be net: no row twice with different signs, nothing taken away that is not there.
    pub(super) fn epoch(&mut self, pushes: &[(usize, Changes)]) -> Result<Bag> {
        let mut output = Vec::new();
        self.epoch += 1;
        for (input, changes) in pushes {
            self.kernel.push(*input, changes, &mut output)?;
        }
        self.kernel.finish(Epoch(self.epoch), &mut output)?;
        let (mut plus, mut minus) = (Bag::new(), Bag::new());
        for changes in &output {
            for (row, cells) in rows(changes.rows()).iter().enumerate() {
                let weight = changes.weights().get(row);
                assert_ne!(weight, 0, "epoch {} gives {cells:?} no times", self.epoch);
                add(if weight > 0 { &mut plus } else { &mut minus }, cells, weight);
            }
        }
        for row in plus.keys() {
            assert!(
                !minus.contains_key(row),
                "epoch {} both gives and takes back {row:?}",
                self.epoch
            );
        }
        output
            .iter()
            .for_each(|changes| add_changes(&mut self.contents, changes));
        for (row, count) in &self.contents {
            assert!(
                *count > 0,
                "after epoch {} the output holds {row:?} {count} times",
                self.epoch
            );
        }
        plus.extend(minus);
        Ok(plus)
    }

    /// A state table, all of it or the rows of some keys.
    pub(super) fn state(&self, table: usize, keys: Option<&[ArrayRef]>) -> Bag {
        bag(&self.kernel.read(table, keys).unwrap())
    }

    /// Rows of the state tables `0..tables`.
    pub(super) fn state_rows(&self, tables: usize) -> Vec<u64> {
        (0..tables).map(|table| self.kernel.size(table).0).collect()
    }
}
