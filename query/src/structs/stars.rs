//! `(s).*` in a select list: the fields of a STRUCT as columns.
//!
//! Only the planner knows the type of `s`. So the item is read as the access to a field of a name of its own, and when the
//! planner comes to it, planning ends there with a [`Star`], which tells the type; then the item becomes one for each field, and the
//! statement is planned again.
//!
//! # Not here
//! `t.*` of a relation, which the planner knows.

use crate::names::item_name;
use crate::walk;
use arrow::datatypes::DataType;
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Select, SelectItem, Statement, Value, Visitor, VisitorMut,
};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of such fields begin with.
const STAR: &str = "\u{1}*";

/// Such items in one statement.
const STARS_MAX: usize = 64;

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The type of what stands before `.*`, as an error that ends planning.
#[derive(Debug)]
pub(crate) struct Star {
    name: String,
    of: DataType,
}

impl Star {
    /// The end of planning, if a field's name is such an item's.
    pub(super) fn met(name: &str, of: &DataType) -> Option<DataFusionError> {
        let star = Star {
            name: name.to_string(),
            of: of.clone(),
        };
        name.starts_with(STAR)
            .then(|| DataFusionError::External(Box::new(star)))
    }

    /// What ended planning, if it was such an item.
    pub(crate) fn behind(error: &DataFusionError) -> Option<&Star> {
        let root = match error.find_root() {
            DataFusionError::Collection(errors) => return errors.iter().find_map(Star::behind),
            root => root,
        };
        match root {
            DataFusionError::External(inner) => inner.downcast_ref::<Star>(),
            _ => None,
        }
    }

    /// Puts the fields in the place of the item.
    ///
    /// # Errors
    /// 42809: it is no STRUCT. 0A000: it stands in no select list.
    pub(crate) fn put(&self, statement: &mut Statement) -> Result<()> {
        let Some(fields) = fields_of(&self.of) else {
            let type_name = crate::types::type_name(&self.of);
            let message = format!("column notation .* applied to type {type_name}, which is not a composite type");
            return Err(Error::new(ErrorKind::Invalid, "SQL-0307", message).sqlstate("42809"));
        };
        let names = fields.iter().map(|field| field.name().clone()).collect();
        let mut putting = Putting {
            star: &self.name,
            names,
            is_put: false,
        };
        let _ = walk::change(statement, &mut putting);
        match putting.is_put {
            true => Ok(()),
            false => Err(Star::misplaced()),
        }
    }

    /// The error of such an item in another place than a select list.
    pub(crate) fn misplaced() -> Error {
        let message = "cannot plan query: row expansion via \"*\" is not supported here";
        Error::new(ErrorKind::Unsupported, "SQL-0301", message).attempt("name the fields")
    }
}

impl fmt::Display for Star {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(...).* of {}", crate::types::type_name(&self.of))
    }
}

impl std::error::Error for Star {}

/// Refuses more such items than a statement may have.
pub(crate) fn check_number(met: usize) -> Result<()> {
    if met < STARS_MAX {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::Invalid,
        "SQL-0327",
        "cannot plan query: too many (...).* in one statement",
    );
    Err(error.sqlstate("54001").fact("limit", STARS_MAX))
}

/// Whether a statement holds marked items.
pub(crate) fn are_in(statement: &Statement) -> bool {
    struct Marked;
    impl Visitor for Marked {
        type Break = ();
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match select.projection.iter().any(|item| struct_of(item, STAR).is_some()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    walk::read(statement, &mut Marked).is_break()
}

/// A name of its own for the fields that `.*` stands for.
pub(crate) fn new_name() -> String {
    format!("{STAR}{}*", NUMBERS.fetch_add(1, Ordering::Relaxed))
}

/// The access to a field, in the form that the planner knows.
fn field_of(expr: Expr, name: &str) -> Expr {
    Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(expr))),
        access_chain: vec![AccessExpr::Dot(Expr::Value(
            Value::SingleQuotedString(name.to_string()).with_empty_span(),
        ))],
    }
}

/// The STRUCT of an item whose name begins so.
fn struct_of<'a>(item: &'a SelectItem, star: &str) -> Option<&'a Expr> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return None;
    };
    match expr {
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.as_slice() {
            [AccessExpr::Dot(Expr::Value(name))] => match &name.value {
                Value::SingleQuotedString(name) => name.starts_with(star).then_some(root),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

struct Putting<'a> {
    star: &'a str,
    names: Vec<String>,
    is_put: bool,
}

impl Putting<'_> {
    fn items(&mut self, items: &mut Vec<SelectItem>) {
        let Some(position) = items.iter().position(|item| struct_of(item, self.star).is_some()) else {
            return;
        };
        let Some(whole) = struct_of(&items[position], self.star).cloned() else {
            return;
        };
        let has_wildcard = items
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)));
        let taken: Vec<String> = items.iter().filter_map(item_name).collect();
        let named = self.names.iter().enumerate().map(|(number, name)| {
            let is_taken = has_wildcard || taken.contains(name) || self.names[..number].contains(name);
            // What is behind the mark is hidden, see `names`.
            let alias = match is_taken {
                true => format!("{name}{}.{number}", self.star),
                false => name.clone(),
            };
            SelectItem::ExprWithAlias {
                expr: field_of(whole.clone(), name),
                alias: Ident::with_quote('"', alias),
            }
        });
        let named: Vec<SelectItem> = named.collect();
        items.splice(position..=position, named);
        self.is_put = true;
    }
}

impl VisitorMut for Putting<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.items(&mut select.projection);
        ControlFlow::Continue(())
    }
}
