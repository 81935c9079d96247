//! SET, RESET and SHOW of the session's settings.

use super::{Session, command, fixed_rows, text_column};
use crate::outcome::Outcome;
use crate::parse::Statement;
use arrow::array::RecordBatch;
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::{Reset, Statement as Ast};
use std::sync::Arc;

impl Session {
    /// Sets a startup parameter (`application_name`, `client_encoding`, `options` ...); unknown ones are kept.
    pub fn set_startup_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        Arc::make_mut(&mut self.settings).insert(name.to_lowercase(), value.to_string());
        self.initial = self.settings.clone();
        Ok(())
    }

    /// Session parameters to report to a PostgreSQL client at start (`server_version` ...).
    pub fn parameter_status(&self) -> Vec<(String, String)> {
        crate::settings::reported(&self.settings)
    }

    pub(super) fn set(&mut self, set: &datafusion::sql::sqlparser::ast::Set) -> Result<Outcome> {
        crate::settings::set(Arc::make_mut(&mut self.settings), set)?;
        Ok(command("SET"))
    }

    pub(super) fn reset(&mut self, reset: &Reset) -> Result<Outcome> {
        match reset {
            Reset::ALL => self.settings = self.initial.clone(),
            Reset::ConfigurationParameter(name) => {
                let name = name.to_string().to_lowercase();
                let (_, value) = crate::settings::show(&self.initial, &name)?;
                Arc::make_mut(&mut self.settings).insert(name, value);
            }
        }
        Ok(command("RESET"))
    }

    /// Assigns what a query sets by `set_config`, which is all that it may change.
    pub(super) fn set_from_query(&mut self, statement: &Statement, ast: &Ast) -> Result<()> {
        if !statement.text.contains("set_config") {
            return Ok(());
        }
        for (name, value) in crate::pg_catalog::assigned_settings(ast) {
            crate::settings::assign(Arc::make_mut(&mut self.settings), &name, value)?;
        }
        Ok(())
    }

    pub(super) fn show_setting(&self, variable: &[datafusion::sql::sqlparser::ast::Ident]) -> Result<Outcome> {
        let name = variable
            .iter()
            .map(|ident| ident.value.to_lowercase())
            .collect::<Vec<_>>()
            .join(" ");
        let (name, value) = crate::settings::show(&self.settings, &name)?;
        let schema = text_column(&name);
        let values = arrow::array::StringArray::from(vec![value]);
        Ok(fixed_rows(
            RecordBatch::try_new(schema, vec![Arc::new(values)])?,
            "SHOW",
        ))
    }
}
