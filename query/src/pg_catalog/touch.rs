//! Tells the statements that ask for something of the system catalog from all others.

use crate::names::folded;
use crate::walk;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Statement, Value, Visitor,
};
use std::ops::ControlFlow;

/// Whether a statement names a system table, a function of the catalog, or a type that only the catalog has.
pub(crate) fn is_touched(statement: &Statement) -> bool {
    walk::read(statement, &mut Touch).is_break()
}

struct Touch;

impl Visitor for Touch {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let parts = words(name);
        let is_system = match parts.as_slice() {
            [name] => name.starts_with("pg_"),
            [.., schema, _] => schema == super::SCHEMA || schema == super::INFORMATION_SCHEMA,
            [] => false,
        };
        found(is_system)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Function(function) => is_system_function(&function.name),
            Expr::Identifier(ident) => ident.quote_style.is_none() && folded(ident).starts_with("current_"),
            Expr::Cast { data_type, .. } => is_system_type(data_type),
            Expr::Collate { .. } => true,
            _ => false,
        })
    }
}

fn found(it: bool) -> ControlFlow<()> {
    match it {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

fn words(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident().map(folded)).collect()
}

fn is_system_function(name: &ObjectName) -> bool {
    match words(name).as_slice() {
        [name] => super::functions::is_own(name),
        [.., schema, _] => schema == super::SCHEMA,
        [] => false,
    }
}

fn is_system_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Regclass => true,
        DataType::Custom(name, _) => match words(name).as_slice() {
            [name] => name.starts_with("reg") || ["oid", "name"].contains(&name.as_str()),
            [.., schema, _] => schema == super::SCHEMA,
            [] => false,
        },
        DataType::Array(element) => {
            use datafusion::sql::sqlparser::ast::ArrayElemTypeDef::{AngleBracket, SquareBracket};
            match element {
                SquareBracket(element, _) | AngleBracket(element) => is_system_type(element),
                _ => false,
            }
        }
        _ => false,
    }
}

/// The settings that a statement assigns by `set_config(name, value, false)`.
///
/// # Returns
/// Names and values, in the order of the statement; those that are no literals are not among them.
pub(crate) fn assigned_settings(statement: &Statement) -> Vec<(String, String, bool)> {
    let mut calls = Calls(Vec::new());
    let _ = walk::read(statement, &mut calls);
    calls.0
}

struct Calls(Vec<(String, String, bool)>);

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && words(&function.name).last().is_some_and(|name| name == "set_config")
            && let [Some(name), Some(value), is_local @ ..] = literals(function).as_slice()
        {
            let is_local = matches!(is_local, [Some(text)] if text == "true");
            self.0.push((name.to_lowercase(), value.clone(), is_local));
        }
        ControlFlow::Continue(())
    }
}

fn literals(function: &Function) -> Vec<Option<String>> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let literal = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        _ => None,
    };
    list.args.iter().map(literal).collect()
}
