//! `cenote state get --from`: the rows of one key.

use super::named;
use crate::cli::output::Output;
use crate::cli::state::GetOptions;
use crate::encode::{Numbers, RowObject};
use arrow::array::ArrayRef;
use cenote_query::pgtext::parse_array;
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, TableEntry};
use cenote_statestore::{Error, ErrorKind, KeyIndex, Result, RowStore, hash_rows, key_group};

/// Prints each row of a key as a JSON object.
///
/// # Errors
/// The values do not fit the columns, or no row has them.
pub fn look_up(checkpoint: &Checkpoint, get: &GetOptions, output: &mut Output) -> Result<()> {
    let name = named(checkpoint, &get.name);
    let table = checkpoint.table(&name)?;
    let columns = columns_of(table, get)?;
    let fields = table.table_schema();
    let parse = |(column, text): (&usize, &String)| parse_array(&[Some(text)], fields.field(*column).data_type());
    let key: Vec<ArrayRef> = columns.iter().zip(&get.key).map(parse).collect::<Result<_>>()?;
    let mut wanted = Wanted::new(&key, &columns, &fields)?;
    let mut found = 0;
    let object = RowObject::new(fields.fields(), Numbers::Raw);
    for changes in checkpoint.read_table(&name, groups_of(table, &columns, &key))? {
        let changes = changes?;
        let writer = object.over(changes.rows().columns())?;
        for row in wanted.rows_in(changes.rows().columns(), changes.len()) {
            for _ in 0..changes.weights().get(row) {
                writer.write(output.buffer(), row);
                output.buffer().push(b'\n');
                output.settle()?;
                found += 1;
            }
        }
    }
    output.flush()?;
    match found {
        0 => {
            let message = format!("cannot find the key in `{}`: no row has it", get.name);
            Err(Error::new(ErrorKind::Invalid, "CLI-0020", message)
                .sqlstate("02000")
                .fact("key", get.key.join(", ")))
        }
        _ => Ok(()),
    }
}

/// The columns that the values are for.
fn columns_of(table: &TableEntry, get: &GetOptions) -> Result<Vec<usize>> {
    if get.column.is_empty() {
        let key = if table.multiset {
            Vec::new()
        } else {
            table.identity_columns()
        };
        return match key.len() == get.key.len() {
            true => Ok(key),
            false => Err(GetOptions::miscounted(&get.name, key.len(), get.key.len())),
        };
    }
    let position = |name: &String| {
        table
            .columns
            .iter()
            .position(|column| column.name == *name)
            .ok_or_else(|| {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", get.name);
                Error::new(ErrorKind::Invalid, "SQL-0302", message)
                    .sqlstate("42703")
                    .fact("columns", names.join(", "))
            })
    };
    get.column.iter().map(position).collect()
}

/// Where rows of the key can be: in one key group if the values name it.
fn groups_of(table: &TableEntry, columns: &[usize], key: &[ArrayRef]) -> KeyGroups {
    let given = |column: &usize| {
        columns
            .iter()
            .position(|other| other == column)
            .map(|at| key[at].clone())
    };
    match table.key_columns().iter().map(given).collect::<Option<Vec<_>>>() {
        Some(values) => {
            let group = key_group(hash_rows(&values, 1)[0]);
            KeyGroups::new(group, group)
        }
        None => KeyGroups::ALL,
    }
}

/// One key, kept so that rows can be compared with it.
struct Wanted {
    store: RowStore,
    index: KeyIndex,
    columns: Vec<usize>,
}

impl Wanted {
    fn new(key: &[ArrayRef], columns: &[usize], fields: &arrow::datatypes::Schema) -> Result<Wanted> {
        let mut store = RowStore::new(std::sync::Arc::new(fields.project(columns)?));
        let view = RowStore::view(0..key.len(), key);
        let slot = store.allocate();
        store.write_one(slot, &view, 0);
        let mut index = KeyIndex::default();
        index.insert(hash_rows(key, 1)[0], slot);
        let columns = columns.to_vec();
        Ok(Wanted { store, index, columns })
    }

    fn rows_in(&mut self, rows: &[ArrayRef], count: usize) -> Vec<usize> {
        let arrays: Vec<ArrayRef> = self.columns.iter().map(|column| rows[*column].clone()).collect();
        let view = RowStore::view(0..arrays.len(), &arrays);
        let hashes = hash_rows(&arrays, count).into_iter().enumerate();
        let is_found = |row: usize, hash: u64| {
            self.index
                .find(hash, |slot| self.store.equals(slot, &view, row))
                .is_some()
        };
        hashes
            .filter(|(row, hash)| is_found(*row, *hash))
            .map(|(row, _)| row)
            .collect()
    }
}
