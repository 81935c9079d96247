//! VERIFY, EXPLAIN of a view that is there, SHOW ERRORS.

use super::{Session, fixed_rows, text_column};
use crate::catalog::{MaterializedView, Object};
use crate::ddl::object_name;
use crate::outcome::Outcome;
use crate::parse::{Inspection, Parsed, parse_script};
use crate::plan::ReadView;
use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;

impl Session {
    /// Runs a statement that looks into a view.
    pub(super) async fn inspect(&mut self, inspection: &Inspection) -> Result<Outcome> {
        if let Inspection::Errors(of) = inspection {
            return self.show_errors(of.as_ref()).await;
        }
        if self.database.config().answers.wait_for_sources() {
            self.database.wait_for_bounded_sources().await?;
        }
        let read = self.committed_view().await?;
        let epoch = read.pin.epoch();
        let (rows, verb) = match inspection {
            Inspection::Verify(name) => {
                let view = materialized(&read, name)?;
                (crate::verify::verify(&read, &view).await?, "VERIFY")
            }
            Inspection::Dataflow(name) => {
                let view = materialized(&read, name)?;
                let text = crate::explain::dataflow(&read, &view.plan);
                let lines: StringArray = text.lines().map(Some).collect();
                let rows = RecordBatch::try_new(text_column("QUERY PLAN"), vec![Arc::new(lines)])?;
                (rows, "EXPLAIN")
            }
            Inspection::Work(name) => {
                let view = materialized(&read, name)?;
                self.database.check_view(&view)?;
                let rows = crate::figures::operators(&read, Some(&view.definition.name)).await?;
                let behind_name: Vec<usize> = (1..rows.num_columns()).collect();
                (rows.project(&behind_name)?, "EXPLAIN")
            }
            Inspection::Errors(_) => unreachable!("answered above"),
        };
        self.last_read = Some(epoch);
        match fixed_rows(rows, verb) {
            Outcome::Rows(rows) => Ok(Outcome::Rows(crate::outcome::Rows {
                epoch: Some(epoch),
                ..rows
            })),
            other => Ok(other),
        }
    }

    /// The newest epoch, without the writes of an open transaction.
    async fn committed_view(&self) -> Result<ReadView> {
        self.database.engine().wait_visible(self.last_epoch).await?;
        self.database.read_view(None, None, self.settings.clone())
    }

    async fn show_errors(&mut self, of: Option<&ObjectName>) -> Result<Outcome> {
        if self.database.config().answers.wait_for_sources() {
            self.database.wait_for_bounded_sources().await?;
        }
        let condition = match of {
            None => String::new(),
            Some(name) => {
                let (catalog, name) = (self.database.catalog(), object_name(name)?);
                let object = catalog.get(&name).ok_or_else(|| catalog.missing(&name))?;
                format!("WHERE source = '{}'", object.name().replace('\'', "''"))
            }
        };
        let order = "source, file, line, operator, text, reason";
        let sql = format!("SELECT * FROM cenote_catalog.errors {condition} ORDER BY {order}");
        let statements = parse_script(&sql)?;
        let Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug("SHOW ERRORS is not a query"));
        };
        self.read(ast, None, &[]).await
    }

    /// Columns of the answer.
    pub(super) fn columns_of_inspection(&self, inspection: &Inspection) -> Result<SchemaRef> {
        Ok(match inspection {
            Inspection::Errors(_) => crate::row_errors::columns(),
            Inspection::Dataflow(_) => text_column("QUERY PLAN"),
            Inspection::Work(_) => {
                let all = crate::figures::columns()?;
                Arc::new(Schema::new(all.fields()[1..].to_vec()))
            }
            Inspection::Verify(name) => {
                let read = self.database.read_view(None, None, self.settings.clone())?;
                crate::verify::columns(&*materialized(&read, name)?)
            }
        })
    }
}

fn materialized(read: &ReadView, name: &ObjectName) -> Result<Arc<MaterializedView>> {
    let name = object_name(name)?;
    match read.catalog.get(&name).ok_or_else(|| read.catalog.missing(&name))? {
        Object::MaterializedView(view) => Ok(view.clone()),
        other => {
            let message = format!("cannot look into \"{name}\": it is a {}", other.kind());
            let error = Error::new(ErrorKind::Invalid, "VIEW-0103", message).sqlstate("42809");
            Err(error.attempt("SHOW MATERIALIZED VIEWS lists what can be looked into"))
        }
    }
}
