//! SET, RESET and SHOW of the session's settings.
//!
//! # Rules kept here
//! 1. A transaction block that is rolled back takes back what it set; SET LOCAL lasts until the block's end.

use super::transactions::only_reads;
use super::{Session, command, fixed_rows, text_column};
use crate::outcome::Outcome;
use crate::parse::Statement;
use arrow::array::RecordBatch;
use cenote_statestore::Result;
use datafusion::sql::sqlparser::ast::{ContextModifier, Reset, Set, Statement as Ast, TransactionMode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the end of a transaction does to the settings.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The settings that the transaction began with; `None`: none is open.
    before: Option<Arc<BTreeMap<String, String>>>,
    /// What is set for the transaction only, with the value that comes back.
    local: BTreeMap<String, Option<String>>,
}

impl Scope {
    fn note(&mut self, name: &str, is_local: bool, old: Option<String>) {
        if is_local {
            self.local.entry(name.to_string()).or_insert(old);
        } else {
            self.local.remove(name);
        }
    }
}

impl Session {
    /// Sets a startup parameter (`application_name`, `client_encoding`, `options` ...); unknown ones are kept.
    ///
    /// # Errors
    /// A setting of ours with a value that it does not take.
    pub fn set_startup_parameter(&mut self, name: &str, value: &str) -> Result<()> {
        crate::settings::start(Arc::make_mut(&mut self.settings), name, value)?;
        self.initial = self.settings.clone();
        Ok(())
    }

    /// Session parameters to report to a PostgreSQL client at start (`server_version` ...).
    pub fn parameter_status(&self) -> Vec<(String, String)> {
        crate::settings::reported(&self.settings)
    }

    pub(super) fn set(&mut self, set: &Set) -> Result<Outcome> {
        match set {
            Set::SetTransaction {
                modes,
                snapshot: None,
                session,
            } => self.set_transaction(modes, *session),
            Set::SingleAssignment { scope, variable, .. } => {
                let name = crate::settings::setting_name(variable);
                self.set_scoped(&name, *scope == Some(ContextModifier::Local), set)
            }
            other => {
                crate::settings::set(Arc::make_mut(&mut self.settings), other)?;
                Ok(command("SET"))
            }
        }
    }

    fn set_scoped(&mut self, name: &str, is_local: bool, set: &Set) -> Result<Outcome> {
        if is_local && self.scope.before.is_none() {
            return Ok(Outcome::Command {
                tag: "SET".into(),
                notices: vec!["SET LOCAL can only be used in transaction blocks".into()],
            });
        }
        let old = self.settings.get(name).cloned();
        crate::settings::set(Arc::make_mut(&mut self.settings), set)?;
        self.scope.note(name, is_local, old);
        Ok(command("SET"))
    }

    /// SET TRANSACTION and SET SESSION CHARACTERISTICS.
    fn set_transaction(&mut self, modes: &[TransactionMode], session: bool) -> Result<Outcome> {
        let only_reads = only_reads(modes)?;
        match (&mut self.transaction, only_reads) {
            (_, Some(only_reads)) if session => {
                let value = if only_reads { "on" } else { "off" };
                let settings = Arc::make_mut(&mut self.settings);
                settings.insert("default_transaction_read_only".into(), value.into());
            }
            (Some(transaction), Some(only_reads)) => transaction.only_reads = only_reads,
            (None, _) if !session => {
                return Ok(Outcome::Command {
                    tag: "SET".into(),
                    notices: vec!["SET TRANSACTION can only be used in transaction blocks".into()],
                });
            }
            _ => {}
        }
        Ok(command("SET"))
    }

    /// Notes the settings that a transaction begins with.
    pub(super) fn open_scope(&mut self) {
        self.scope.before.get_or_insert_with(|| self.settings.clone());
    }

    /// Ends what lasts as long as a transaction: its savepoints, its cursors, what it set for itself, and all that it
    /// set if it was rolled back.
    pub(super) fn close_scope(&mut self, committed: bool) {
        self.savepoints.clear();
        self.cursors.end_transaction(committed);
        let Scope { before, local } = std::mem::take(&mut self.scope);
        if let (Some(before), false) = (before, committed) {
            self.settings = before;
            return;
        }
        for (name, value) in local {
            let settings = Arc::make_mut(&mut self.settings);
            match value {
                Some(value) => settings.insert(name, value),
                None => settings.remove(&name),
            };
        }
    }

    pub(super) fn reset(&mut self, reset: &Reset) -> Result<Outcome> {
        match reset {
            Reset::ALL => {
                self.settings = self.initial.clone();
                self.scope.local.clear();
            }
            Reset::ConfigurationParameter(name) => {
                let name = name.to_string().to_lowercase();
                let (_, value) = crate::settings::show(&self.initial, &name)?;
                self.scope.local.remove(&name);
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
        for (name, value, is_local) in crate::pg_catalog::assigned_settings(ast) {
            if is_local && self.scope.before.is_none() {
                continue;
            }
            let old = self.settings.get(&name).cloned();
            crate::settings::assign(Arc::make_mut(&mut self.settings), &name, value)?;
            self.scope.note(&name, is_local, old);
        }
        Ok(())
    }

    pub(super) fn show_setting(&self, variable: &[datafusion::sql::sqlparser::ast::Ident]) -> Result<Outcome> {
        let name = variable
            .iter()
            .map(|ident| ident.value.to_lowercase())
            .collect::<Vec<_>>()
            .join(" ");
        let (name, mut value) = crate::settings::show(&self.settings, &name)?;
        if name == "transaction_read_only" && self.only_reads() {
            value = "on".into();
        }
        let schema = text_column(&name);
        let values = arrow::array::StringArray::from(vec![value]);
        Ok(fixed_rows(
            RecordBatch::try_new(schema, vec![Arc::new(values)])?,
            "SHOW",
        ))
    }
}
