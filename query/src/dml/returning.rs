//! RETURNING: expressions over the rows that a statement has changed.

use super::rows::run;
use crate::catalog::Table;
use crate::error::unsupported;
use crate::names::quoted;
use crate::plan::{ReadView, bind};
use crate::session::{rename, shown_schema};
use arrow::array::RecordBatch;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::SelectItem;

/// The name under which the changed rows are planned.
const ROWS: &str = "\u{2}changed";

/// A RETURNING clause.
pub(crate) struct Returning<'a> {
    items: &'a [SelectItem],
    /// The name that the table's columns are qualified with.
    alias: &'a str,
    /// Whether the statement has other tables, whose columns are not there any more.
    has_others: bool,
}

impl<'a> Returning<'a> {
    /// The clause of a statement, if it has one.
    ///
    /// # Arguments
    /// - `has_others`: whether the statement reads other tables in FROM or USING.
    ///
    /// # Errors
    /// `Unsupported`: `*` where it would have columns of other tables.
    pub(crate) fn of(
        items: Option<&'a Vec<SelectItem>>,
        alias: &'a str,
        has_others: bool,
    ) -> Result<Option<Returning<'a>>> {
        let Some(items) = items else { return Ok(None) };
        if has_others && items.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
            return Err(unsupported("RETURNING * of a statement with other tables").attempt("name the columns"));
        }
        Ok(Some(Returning {
            items,
            alias,
            has_others,
        }))
    }

    /// Plans the clause over rows of a table.
    ///
    /// # Arguments
    /// - `rows`: the columns that users see.
    pub(crate) async fn plan(&self, view: &ReadView, rows: RecordBatch) -> Result<(SessionState, LogicalPlan)> {
        let items: Vec<String> = self.items.iter().map(SelectItem::to_string).collect();
        let (rows_name, alias) = (quoted(ROWS), quoted(self.alias));
        let sql = format!("SELECT {} FROM {rows_name} AS {alias}", items.join(", "));
        let statements = crate::parse::parse_script(&sql)?;
        let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug("RETURNING was not parsed as a query"));
        };
        let view = view.clone().with_given(ROWS, rows);
        let state = view.state();
        let plan = view.plan(&state, ast).await.map_err(Error::unplaced);
        let plan = plan.map_err(|error| match self.has_others {
            true => error.attempt("RETURNING takes columns of the changed table alone so far"),
            false => error,
        })?;
        check_plain(&plan)?;
        Ok((state, plan))
    }

    /// The clause's rows, in the order of the changed ones.
    pub(super) async fn rows(
        &self,
        view: &ReadView,
        rows: RecordBatch,
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch> {
        let (state, plan) = self.plan(view, rows).await?;
        let schema = shown_schema(plan.schema().as_arrow());
        let batch = run(&state, bind(plan, parameters)?).await?;
        rename(batch, &schema)
    }
}

/// The empty rows of a table, in the columns that users see.
pub(crate) fn no_rows(table: &Table) -> RecordBatch {
    RecordBatch::new_empty(super::nullable(&table.columns))
}

fn check_plain(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(());
    };
    let (sqlstate, what) = match projection.input.as_ref() {
        LogicalPlan::Aggregate(_) => ("42803", "aggregate"),
        LogicalPlan::Window(_) => ("42P20", "window"),
        _ => return Ok(()),
    };
    Err(Error::new(
        ErrorKind::Invalid,
        "SQL-0315",
        format!("{what} functions are not allowed in RETURNING"),
    )
    .sqlstate(sqlstate))
}
