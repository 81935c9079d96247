//! `cenote state diff`: which keys two checkpoints do not have in common, and what they hold.
//!
//! # Cost
//! Buckets of the same files are not read. Of the others one is in memory at a time, that of the first checkpoint.

use super::named;
use crate::cli::output::Output;
use crate::encode::{Numbers, RowObject, write_json_text};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Fields, SchemaRef};
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, TableEntry, WEIGHT};
use cenote_statestore::{Changes, KeyIndex, Result, RowStore, hash_rows};
use std::io::Write;
use std::path::PathBuf;

/// Code of the error that says that there are differences, which were printed: exit 1 without a message.
pub const DIFFERENT: &str = "CLI-0022";

/// Compare two checkpoints, key by key; exit 1 if they differ
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote state diff --from ckpt/ID --to ckpt/ID --table by_owner --json")]
pub struct DiffOptions {
    /// The other checkpoint, as of --from
    #[arg(long, value_name = "PLACE", env = "CENOTE_TO")]
    pub to: PathBuf,
    /// The table; without it all of them
    #[arg(long, value_name = "NAME", env = "CENOTE_TABLE")]
    table: Option<String>,
    /// One JSON object per difference
    #[arg(long, env = "CENOTE_JSON", value_parser = clap::builder::FalseyValueParser::new())]
    json: bool,
}

/// What happened to a key, or to a table.
#[derive(Clone, Copy)]
enum Difference {
    Added,
    Removed,
    Changed,
}

impl Difference {
    fn word(self) -> &'static str {
        match self {
            Difference::Added => "added",
            Difference::Removed => "removed",
            Difference::Changed => "changed",
        }
    }

    fn sign(self) -> char {
        match self {
            Difference::Added => '+',
            Difference::Removed => '-',
            Difference::Changed => '~',
        }
    }
}

/// Prints the differences.
///
/// # Returns
/// How many there are.
///
/// # Errors
/// Neither has the table, or a file is damaged.
pub fn diff(from: &Checkpoint, to: &Checkpoint, options: &DiffOptions, output: &mut Output) -> Result<u64> {
    let mut names: Vec<String> = match &options.table {
        Some(name) => {
            let here = named(from, name);
            let is_here = from.manifest().table(&here).is_some();
            vec![if is_here { here } else { named(to, name) }]
        }
        None => [from, to]
            .iter()
            .flat_map(|side| &side.manifest().tables)
            .map(TableEntry::readable_name)
            .collect(),
    };
    names.sort();
    names.dedup();
    let mut found = 0;
    for name in &names {
        let mut printer = Printer {
            name,
            json: options.json,
            output: &mut *output,
            found: 0,
        };
        match (from.manifest().table(name), to.manifest().table(name)) {
            (None, None) => return Err(from.table(name).expect_err("it is not there")),
            (None, Some(_)) => printer.table(Difference::Added, "the table is new")?,
            (Some(_), None) => printer.table(Difference::Removed, "the table is gone")?,
            (Some(a), Some(b)) if !are_alike(a, b) => {
                printer.table(Difference::Changed, "its columns or its key changed")?
            }
            (Some(a), Some(b)) => rows(from, to, (a, b), &mut printer)?,
        }
        found += printer.found;
    }
    output.flush()?;
    Ok(found)
}

fn are_alike(a: &TableEntry, b: &TableEntry) -> bool {
    let key = |table: &TableEntry| (table.identity.clone(), table.key.clone(), table.multiset);
    a.table_schema() == b.table_schema() && key(a) == key(b)
}

fn rows(
    from: &Checkpoint,
    to: &Checkpoint,
    (a, b): (&TableEntry, &TableEntry),
    printer: &mut Printer<'_>,
) -> Result<()> {
    for bucket in &a.buckets {
        let twin = b.buckets.iter().find(|other| other.groups() == bucket.groups());
        if twin.is_some_and(|twin| twin.parts == bucket.parts) {
            continue;
        }
        let mut before = Before::read(from, a, bucket.groups())?;
        for changes in to.read_table(&b.readable_name(), bucket.groups())? {
            before.compare(&changes?, printer)?;
        }
        before.rest(printer)?;
    }
    Ok(())
}

/// The rows of some key groups in the first checkpoint.
struct Before {
    identity: Vec<usize>,
    multiset: bool,
    store: RowStore,
    index: KeyIndex,
    weights: Vec<i64>,
    met: Vec<bool>,
}

impl Before {
    fn read(from: &Checkpoint, table: &TableEntry, groups: KeyGroups) -> Result<Before> {
        let mut before = Before {
            identity: table.identity_columns(),
            multiset: table.multiset,
            store: RowStore::new(table.table_schema()),
            index: KeyIndex::default(),
            weights: Vec::new(),
            met: Vec::new(),
        };
        for changes in from.read_table(&table.readable_name(), groups)? {
            let changes = changes?;
            let slots: Vec<u32> = (0..changes.len()).map(|_| before.store.allocate()).collect();
            let rows: Vec<u32> = (0..changes.len() as u32).collect();
            before.store.write(&slots, changes.rows().columns(), &rows);
            for (row, hash) in before.hashes(changes.rows()).into_iter().enumerate() {
                before.index.insert(hash, slots[row]);
                before.weights.push(changes.weights().get(row));
                before.met.push(false);
            }
        }
        Ok(before)
    }

    fn keys(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.identity
            .iter()
            .map(|column| rows.column(*column).clone())
            .collect()
    }

    fn hashes(&self, rows: &RecordBatch) -> Vec<u64> {
        hash_rows(&self.keys(rows), rows.num_rows())
    }

    fn compare(&mut self, after: &Changes, printer: &mut Printer<'_>) -> Result<()> {
        let (rows, keys) = (after.rows(), self.keys(after.rows()));
        let key = RowStore::view(self.identity.iter().copied(), &keys);
        let whole = RowStore::view(0..rows.num_columns(), rows.columns());
        let (mut slots, mut changed, mut added) = (Vec::new(), Vec::new(), Vec::new());
        for (row, hash) in self.hashes(rows).into_iter().enumerate() {
            match self.index.find(hash, |slot| self.store.equals(slot, &key, row)) {
                None => added.push(row as u32),
                Some(slot) => {
                    self.met[slot as usize] = true;
                    let same_weight = self.weights[slot as usize] == after.weights().get(row);
                    if !same_weight || !self.store.equals(slot, &whole, row) {
                        slots.push(slot);
                        changed.push(row as u32);
                    }
                }
            }
        }
        let sides = self.sides(rows.schema());
        let (before, old) = (self.store.gather_rows(&slots), self.weights_of(&slots));
        let (now, added) = (after.take(&changed)?, after.take(&added)?);
        let new = |changes: &Changes| {
            (0..changes.len())
                .map(|row| changes.weights().get(row))
                .collect::<Vec<_>>()
        };
        printer.rows(
            &sides,
            Difference::Changed,
            Some((&before, &old)),
            Some((now.rows(), &new(&now))),
        )?;
        printer.rows(&sides, Difference::Added, None, Some((added.rows(), &new(&added))))
    }

    /// What was there and is not any more.
    fn rest(self, printer: &mut Printer<'_>) -> Result<()> {
        let gone: Vec<u32> = (0..self.store.slots())
            .filter(|slot| !self.met[*slot as usize])
            .collect();
        let sides = self.sides(self.store.schema().clone());
        for slots in gone.chunks(crate::encode::CHUNK_ROWS) {
            let (rows, weights) = (self.store.gather_rows(slots), self.weights_of(slots));
            printer.rows(&sides, Difference::Removed, Some((&rows, &weights)), None)?;
        }
        Ok(())
    }

    fn weights_of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.weights[*slot as usize]).collect()
    }

    fn sides(&self, schema: SchemaRef) -> Sides {
        let values = (0..schema.fields().len())
            .filter(|column| !self.identity.contains(column))
            .collect();
        Sides {
            schema,
            key: self.identity.clone(),
            values,
            multiset: self.multiset,
        }
    }
}

/// How rows are split into key and value.
struct Sides {
    schema: SchemaRef,
    key: Vec<usize>,
    values: Vec<usize>,
    multiset: bool,
}

impl Sides {
    fn object(&self, columns: &[usize]) -> RowObject {
        let fields: Fields = columns
            .iter()
            .map(|column| self.schema.fields()[*column].clone())
            .collect();
        RowObject::new(&fields, Numbers::Raw)
    }
}

/// Rows and how often each is there.
type Weighted<'a> = (&'a RecordBatch, &'a Vec<i64>);

struct Printer<'a> {
    name: &'a str,
    json: bool,
    output: &'a mut Output,
    found: u64,
}

impl Printer<'_> {
    fn table(&mut self, difference: Difference, what: &str) -> Result<()> {
        self.found += 1;
        let (json, name, out) = (self.json, self.name, self.output.buffer());
        if json {
            out.extend_from_slice(b"{\"table\":");
            write_json_text(out, name);
            write!(out, ",\"change\":\"table_{}\"}}", difference.word()).expect("a Vec takes every write");
        } else {
            write!(out, "{} {name}: {what}", difference.sign()).expect("a Vec takes every write");
        }
        out.push(b'\n');
        self.output.settle()
    }

    fn rows(
        &mut self,
        sides: &Sides,
        difference: Difference,
        from: Option<Weighted<'_>>,
        to: Option<Weighted<'_>>,
    ) -> Result<()> {
        let Some((rows, _)) = from.or(to) else { return Ok(()) };
        let (keys, values) = (sides.object(&sides.key), sides.object(&sides.values));
        let pick = |rows: &RecordBatch, columns: &[usize]| -> Vec<ArrayRef> {
            columns.iter().map(|column| rows.column(*column).clone()).collect()
        };
        let key_columns = pick(rows, &sides.key);
        let key = keys.over(&key_columns)?;
        let of_side =
            |side: Option<Weighted<'_>>| side.map(|(rows, weights)| (pick(rows, &sides.values), weights.clone()));
        let (from, to) = (of_side(from), of_side(to));
        for row in 0..rows.num_rows() {
            self.found += 1;
            let (json, name, out) = (self.json, self.name, self.output.buffer());
            let value = |out: &mut Vec<u8>, side: &(Vec<ArrayRef>, Vec<i64>)| -> Result<()> {
                match sides.multiset {
                    true => write!(out, "{{\"{WEIGHT}\":{}}}", side.1[row]).expect("a Vec takes every write"),
                    false => values.over(&side.0)?.write(out, row),
                }
                Ok(())
            };
            if json {
                out.extend_from_slice(b"{\"table\":");
                write_json_text(out, name);
                write!(out, ",\"change\":\"{}\",\"key\":", difference.word()).expect("a Vec takes every write");
            } else {
                write!(out, "{} {name} ", difference.sign()).expect("a Vec takes every write");
            }
            key.write(out, row);
            for (side, label, before) in [
                (&from, "from", ' '),
                (&to, "to", if from.is_some() { '>' } else { ' ' }),
            ] {
                let Some(side) = side else { continue };
                match (json, before) {
                    (true, _) => write!(out, ",\"{label}\":").expect("a Vec takes every write"),
                    (false, '>') => out.extend_from_slice(b" -> "),
                    (false, _) => out.push(b' '),
                }
                value(out, side)?;
            }
            out.extend_from_slice(if json { b"}\n" } else { b"\n" });
            self.output.settle()?;
        }
        Ok(())
    }
}
