//! ON CONFLICT: which keys it goes by, and DO UPDATE.

use super::assignments::assigned;
use super::kept::kept_form;
use super::rows::{assign, check_rows, nullable, run};
use super::{stored_columns, visible_rows};
use crate::catalog::Table;
use crate::error::{near, unsupported};
use crate::names::{folded, quoted};
use crate::plan::{ReadView, bind};
use crate::transaction::{ConflictRule, Transaction, encoded};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use cenote_engine::{RowKey, row_keys};
use cenote_statestore::{Changes, Error, ErrorKind, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{ConflictTarget, DoUpdate, OnConflict, OnConflictAction, OnInsert};
use std::collections::HashSet;
use std::sync::Arc;

/// Names under which the rows that are there and those that are proposed are planned.
const KEPT: &str = "\u{2}kept";
const PROPOSED: &str = "\u{2}proposed";

/// The column that tells which of them belong together.
const PAIR: &str = "\u{2}pair";

/// What an INSERT does where a key is there already.
pub(super) enum Conflicts<'a> {
    Refuse,
    /// Leaves out what conflicts in one of these keys.
    Skip(Vec<usize>),
    /// Updates what has the same values of a key.
    Update {
        key: usize,
        update: &'a DoUpdate,
    },
}

impl<'a> Conflicts<'a> {
    /// Reads ON CONFLICT.
    ///
    /// # Errors
    /// 42P10: no key has the named columns. 42704: no such constraint. 42601: DO UPDATE without either.
    pub(super) fn of(table: &Table, on: Option<&'a OnInsert>) -> Result<Conflicts<'a>> {
        let OnConflict {
            conflict_target,
            action,
        } = match on {
            None => return Ok(Conflicts::Refuse),
            Some(OnInsert::OnConflict(on)) => on,
            Some(other) => return Err(unsupported(other)),
        };
        let versioned = table
            .versioned
            .as_ref()
            .ok_or_else(|| unsupported("a change of a table that keeps no rows"))?;
        let keys = row_keys(versioned);
        let meant = match conflict_target {
            Some(target) => Some(keys_meant(table, target, &keys)?),
            None => None,
        };
        match (action, meant) {
            (OnConflictAction::DoNothing, meant) => {
                Ok(Conflicts::Skip(meant.unwrap_or_else(|| (0..keys.len()).collect())))
            }
            (OnConflictAction::DoUpdate(update), Some(meant)) => {
                let key = meant.first().copied().unwrap_or_default();
                Ok(Conflicts::Update { key, update })
            }
            (OnConflictAction::DoUpdate(_), None) => {
                let error = Error::new(
                    ErrorKind::Invalid,
                    "SQL-0311",
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .sqlstate("42601");
                Err(error.attempt("For example, ON CONFLICT (column_name)."))
            }
        }
    }
}

/// The keys that a target means, as positions among `keys`; at least one.
fn keys_meant(table: &Table, target: &ConflictTarget, keys: &[RowKey]) -> Result<Vec<usize>> {
    let of = |is_meant: &dyn Fn(&RowKey) -> bool| -> Vec<usize> {
        (0..keys.len()).filter(|position| is_meant(&keys[*position])).collect()
    };
    match target {
        ConflictTarget::OnConstraint(name) => {
            let name = name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .map(folded)
                .unwrap_or_default();
            let meant = of(&|key| key.name == name);
            if meant.is_empty() {
                let relation = &table.definition.name;
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "SQL-0311",
                    format!("constraint \"{name}\" for table \"{relation}\" does not exist"),
                )
                .sqlstate("42704"));
            }
            Ok(meant)
        }
        ConflictTarget::Columns(columns) => {
            let mut named = Vec::with_capacity(columns.len());
            for column in columns {
                let name = folded(column);
                let position = table.columns.index_of(&name).map_err(|_| {
                    let message = format!("column \"{name}\" does not exist");
                    let error = Error::new(ErrorKind::Invalid, "SQL-0302", message).sqlstate("42703");
                    let fields = table.columns.fields().iter();
                    near(error, &name, fields.map(|field| field.name().as_str()))
                })?;
                named.push(position);
            }
            let is_meant = |key: &RowKey| {
                let all = key.columns.iter().all(|column| named.contains(column));
                all && named.iter().all(|column| key.columns.contains(column))
            };
            let meant = of(&is_meant);
            if meant.is_empty() {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "SQL-0311",
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
                .sqlstate("42P10"));
            }
            Ok(meant)
        }
    }
}

/// ON CONFLICT DO UPDATE of one statement.
pub(super) struct Upsert<'a> {
    pub(super) view: &'a ReadView,
    pub(super) table: &'a Arc<Table>,
    /// The name that the table's columns are qualified with.
    pub(super) alias: &'a str,
    pub(super) update: &'a DoUpdate,
}

impl Upsert<'_> {
    /// Inserts the rows whose key is new, and updates those that are there.
    ///
    /// # Returns
    /// The rows as they are then, in the order of those proposed; without those that WHERE leaves alone.
    ///
    /// # Errors
    /// 21000: two proposed rows have the same key.
    pub(super) async fn run(
        &self,
        transaction: &mut Transaction,
        key: usize,
        rows: RecordBatch,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch> {
        let versioned = self.table.versioned.as_ref();
        let versioned = versioned.ok_or_else(|| unsupported("a change of a table that keeps no rows"))?;
        let key = &row_keys(versioned)[key];
        refuse_repeated(&rows, key)?;
        let found = transaction.matching(self.table, &rows, key)?;
        let proposed = take_record_batch(&rows, &positions(found.key_of_row.iter().copied()))?;
        let (updated, pairs) = self.updated(&found.rows, &proposed, parameters).await?;
        let visible = visible_rows(self.table, &updated)?;
        check_rows(&self.view.database, self.table, &visible).await?;
        let old = take_record_batch(&found.rows, &positions(pairs.iter().copied()))?;
        transaction.replace(self.table, old, Changes::relabel(updated, stored_columns(self.table)?)?)?;

        let there: HashSet<usize> = found.key_of_row.iter().copied().collect();
        let fresh: Vec<usize> = (0..rows.num_rows()).filter(|row| !there.contains(row)).collect();
        let fresh_rows = take_record_batch(&rows, &positions(fresh.iter().copied()))?;
        transaction.insert(self.table, fresh_rows.clone(), &ConflictRule::Retry)?;
        let order = pairs.iter().map(|pair| found.key_of_row[*pair]).chain(fresh);
        in_order(&rows, [visible, fresh_rows], order.collect())
    }

    /// The rows that are updated, in stored columns, and their positions among those that are there.
    async fn updated(
        &self,
        kept: &RecordBatch,
        proposed: &RecordBatch,
        parameters: &[ScalarValue],
    ) -> Result<(RecordBatch, Vec<usize>)> {
        let stored = nullable(&stored_columns(self.table)?);
        let (state, plan) = self.plan(&visible_rows(self.table, kept)?, proposed).await?;
        if kept.num_rows() == 0 {
            return Ok((RecordBatch::new_empty(stored), Vec::new()));
        }
        let set = assigned(self.table, &self.update.assignments)?;
        let values = run(&state, bind(plan, parameters)?).await?;
        let is_wanted = arrow::compute::cast(values.column(set.len()), &DataType::Boolean)?;
        let wanted: BooleanArray = is_wanted.as_boolean().iter().map(|is| Some(is == Some(true))).collect();
        let values = filter_record_batch(&values, &wanted)?;
        let pairs = values.column(set.len() + 1).as_primitive::<Int64Type>();
        let pairs: Vec<usize> = pairs.values().iter().map(|pair| *pair as usize).collect();
        let old = take_record_batch(kept, &positions(pairs.iter().copied()))?;
        let mut columns = old.columns().to_vec();
        for (i, (position, _)) in set.iter().enumerate() {
            columns[*position] = assign(values.column(i), stored.field(*position))?;
        }
        Ok((kept_form(self.table, RecordBatch::try_new(stored, columns)?)?, pairs))
    }

    /// Plans the values of SET, the condition, and which row they are of, over rows that belong together.
    ///
    /// # Arguments
    /// - `kept`, `proposed`: the columns that users see; row by row the same key.
    pub(super) async fn plan(&self, kept: &RecordBatch, proposed: &RecordBatch) -> Result<(SessionState, LogicalPlan)> {
        let set = assigned(self.table, &self.update.assignments)?;
        let values = set
            .iter()
            .enumerate()
            .map(|(i, (_, sql))| format!("({sql}) AS \"set {i}\", "));
        let values: String = values.collect();
        let condition = self.update.selection.as_ref().map(|selection| selection.to_string());
        let condition = condition.unwrap_or_else(|| "true".into());
        let (alias, pair) = (quoted(self.alias), quoted(PAIR));
        let sql = format!(
            "SELECT {values}({condition}) AS \"set where\", {alias}.{pair} AS \"set pair\" \
             FROM {} AS {alias} JOIN {} AS excluded ON {alias}.{pair} = excluded.{pair}",
            quoted(KEPT),
            quoted(PROPOSED)
        );
        let statements = crate::parse::parse_script(&sql)?;
        let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug("DO UPDATE was not parsed as a query"));
        };
        let view = self.view.clone();
        let view = view
            .with_given(KEPT, paired(kept)?)
            .with_given(PROPOSED, paired(proposed)?);
        let state = view.state();
        let plan = view.plan(&state, ast).await.map_err(Error::unplaced)?;
        let is = plan.schema().field(set.len()).data_type();
        if !matches!(is, DataType::Boolean | DataType::Null) {
            let is = crate::types::type_name(is);
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0307",
                format!("argument of WHERE must be type boolean, not type {is}"),
            )
            .sqlstate("42804"));
        }
        Ok((state, plan))
    }
}

/// Rows with their numbers behind.
fn paired(rows: &RecordBatch) -> Result<RecordBatch> {
    let visible = nullable(&rows.schema());
    let mut fields: Vec<Arc<Field>> = visible.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new(PAIR, DataType::Int64, false)));
    let mut columns = rows.columns().to_vec();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.num_rows() as i64));
    columns.push(numbers);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn positions(rows: impl Iterator<Item = usize>) -> UInt32Array {
    UInt32Array::from_iter_values(rows.map(|row| row as u32))
}

/// Parts put together in the order of their positions.
fn in_order(like: &RecordBatch, parts: [RecordBatch; 2], order: Vec<usize>) -> Result<RecordBatch> {
    let schema = nullable(&like.schema());
    let parts = parts.map(|part| Changes::relabel(part, schema.clone()));
    let [first, second] = parts;
    let all = concat_batches(&schema, [&first?, &second?])?;
    let mut at: Vec<usize> = (0..order.len()).collect();
    at.sort_unstable_by_key(|row| order[*row]);
    Ok(take_record_batch(&all, &positions(at.into_iter()))?)
}

fn refuse_repeated(rows: &RecordBatch, key: &RowKey) -> Result<()> {
    let values = key.values(rows);
    let keys = encoded(&values)?;
    let mut seen = HashSet::with_capacity(rows.num_rows());
    for (row, value) in keys.iter().enumerate() {
        if values.iter().all(|column| column.is_valid(row)) && !seen.insert(value.data()) {
            let error = Error::new(
                ErrorKind::Invalid,
                "TABLE-0108",
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .sqlstate("21000");
            return Err(error.attempt(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
    }
    Ok(())
}
