//! The merged columns of `JOIN ... USING` and `NATURAL JOIN`, as a rewrite of the parsed statement.
//!
//! DataFusion takes a merged column for ambiguous wherever it is filtered or grouped by, and for the left side's
//! where both sides are outer. Here its name becomes what the standard says it is: the left side's column, the right
//! side's for a RIGHT JOIN, and the first of the two that is not NULL for a FULL JOIN.
//!
//! # Refused
//! `SELECT *` over a merged column that is not the left side's where the columns of all relations are not known, and a
//! further USING on one: the planner takes the left side's for both.

mod columns;

use crate::catalog::Catalog;
use crate::names::folded;
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use columns::{Known, Relation, columns_of, expand_stars};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, JoinConstraint,
    JoinOperator, ObjectName, Query, Select, SelectItem, Statement, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Puts merged columns in the place of their bare names.
///
/// # Errors
/// `Unsupported` 0A000: the planner would take another column for a merged one.
pub(crate) fn name_merged(statement: &mut Statement, catalog: &Catalog) -> Result<()> {
    let mut merging = Merging {
        catalog,
        common: Vec::new(),
        scopes: Vec::new(),
    };
    match walk::change(statement, &mut merging) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn unsupported(what: &str) -> Error {
    let message = format!("cannot plan query: {what} is not supported yet");
    let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
    error.attempt("join in a subquery that names its columns, and go on from that")
}

struct Merging<'a> {
    catalog: &'a Catalog,
    /// For each query that the walk is in, the names of its WITH and their columns, if known.
    common: Vec<HashMap<String, Option<Vec<String>>>>,
    /// One for each query that the walk is in, the innermost last.
    scopes: Vec<Scope>,
}

/// What bare names mean in a SELECT.
#[derive(Default)]
struct Scope {
    merged: HashMap<String, Expr>,
    /// All names of columns and relations of its FROM; `None` where they are not known, so that none can be looked for further out.
    own: Option<HashSet<String>>,
}

impl Scope {
    fn of(select: &Select, known: &Known) -> Result<Scope> {
        Ok(Scope {
            merged: merged_columns(select, known)?,
            own: own_names(select, known),
        })
    }
}

impl VisitorMut for Merging<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.common.push(HashMap::new());
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = columns_of(&cte.alias, &cte.query, &self.known());
            if let Some(common) = self.common.last_mut() {
                common.insert(folded(&cte.alias.name), columns);
            }
        }
        self.scopes.push(Scope::default());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.common.pop();
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        expand_stars(select, &self.known());
        let found = match Scope::of(select, &self.known()) {
            Ok(found) => found,
            Err(error) => return ControlFlow::Break(error),
        };
        name_items(&mut select.projection, &found.merged);
        if let Some(scope) = self.scopes.last_mut() {
            *scope = found;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<Error> {
        // What ORDER BY names behind it are columns of the result.
        if let Some(scope) = self.scopes.last_mut() {
            *scope = Scope::default();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Identifier(ident) = expr
            && let Some(merged) = self.meaning(&folded(ident))
        {
            *expr = merged.clone();
        }
        ControlFlow::Continue(())
    }
}

impl Merging<'_> {
    fn known(&self) -> Known<'_> {
        Known {
            catalog: self.catalog,
            common: &self.common,
        }
    }

    /// The merged column of that name: of the innermost SELECT that has a column so named.
    fn meaning(&self, name: &str) -> Option<&Expr> {
        for (depth, scope) in self.scopes.iter().rev().enumerate() {
            if let Some(merged) = scope.merged.get(name) {
                let inner = &self.scopes[self.scopes.len() - depth..];
                return inner.iter().all(|scope| !scope.hides(merged)).then_some(merged);
            }
            if scope.own.as_ref().is_none_or(|own| own.contains(name)) {
                return None;
            }
        }
        None
    }
}

impl Scope {
    /// Whether a relation here has the name of one that the merged column is of.
    fn hides(&self, merged: &Expr) -> bool {
        let own = self.own.as_ref();
        qualifiers(merged)
            .iter()
            .any(|qualifier| own.is_none_or(|own| own.contains(qualifier)))
    }
}

/// The relations whose columns a merged column is made of.
fn qualifiers(merged: &Expr) -> Vec<String> {
    match merged {
        Expr::CompoundIdentifier(parts) => vec![folded(&parts[0])],
        Expr::Function(Function {
            args: FunctionArguments::List(list),
            ..
        }) => {
            let parts = list.args.iter().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => Some(qualifiers(part)),
                _ => None,
            });
            parts.flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// The names of FROM's relations and of their columns, if all are known.
fn own_names(select: &Select, known: &Known) -> Option<HashSet<String>> {
    let mut names = HashSet::new();
    for from in &select.from {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            let relation = Relation::of(factor, known)?;
            names.insert(folded(&relation.qualifier));
            names.extend(relation.columns?);
        }
    }
    Some(names)
}

/// Keeps the names of merged columns in the result.
fn name_items(items: &mut [SelectItem], merged: &HashMap<String, Expr>) {
    for item in items {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
            && merged.contains_key(&folded(ident))
        {
            let alias = Ident::with_quote('"', folded(ident));
            let expr = Expr::Identifier(ident.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

fn merged_columns(select: &Select, known: &Known) -> Result<HashMap<String, Expr>> {
    let (mut merged, mut not_left) = (HashMap::new(), HashSet::new());
    for from in &select.from {
        let mut left: Vec<Option<Relation>> = vec![Relation::of(&from.relation, known)];
        for join in &from.joins {
            let right = Relation::of(&join.relation, known);
            if let (Some((kind, constraint)), Some(right)) = (kind_of(&join.join_operator), &right) {
                for column in shared_columns(constraint, &left, right) {
                    if not_left.contains(&column) {
                        return Err(unsupported("USING of a column that a RIGHT or FULL JOIN has merged"));
                    }
                    if !matches!(kind, Kind::LeftKeeps) {
                        not_left.insert(column.clone());
                    }
                    let of_left = merged.get(&column).cloned().or_else(|| left_column(&left, &column));
                    if let Some(of_left) = of_left {
                        merged.insert(column.clone(), merge(kind, of_left, right.column(&column)));
                    }
                }
            }
            left.push(right);
        }
    }
    let is_star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
    match !not_left.is_empty() && select.projection.iter().any(is_star) {
        true => Err(unsupported("SELECT * over a RIGHT or FULL JOIN with USING")),
        false => Ok(merged),
    }
}

/// Which side's rows may be missing in a pair.
#[derive(Clone, Copy)]
enum Kind {
    LeftKeeps,
    RightKeeps,
    BothKeep,
}

fn kind_of(operator: &JoinOperator) -> Option<(Kind, &JoinConstraint)> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => Some((Kind::LeftKeeps, constraint)),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => Some((Kind::RightKeeps, constraint)),
        JoinOperator::FullOuter(constraint) => Some((Kind::BothKeep, constraint)),
        _ => None,
    }
}

fn shared_columns(constraint: &JoinConstraint, left: &[Option<Relation>], right: &Relation) -> Vec<String> {
    match constraint {
        JoinConstraint::Using(columns) => {
            let names = columns
                .iter()
                .filter_map(|column| column.0.last()?.as_ident().map(folded));
            names.collect()
        }
        JoinConstraint::Natural => {
            let is_shared = |column: &&String| left.iter().flatten().any(|relation| relation.has(column));
            right.columns.iter().flatten().filter(is_shared).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// The column of that name on the left of a join, if it is known whose it is.
fn left_column(left: &[Option<Relation>], column: &str) -> Option<Expr> {
    match left {
        [Some(only)] => Some(only.column(column)),
        several => {
            let mut owners = several.iter().flatten().filter(|relation| relation.has(column));
            let owner = owners.next()?;
            owners.next().is_none().then(|| owner.column(column))
        }
    }
}

fn merge(kind: Kind, left: Expr, right: Expr) -> Expr {
    match kind {
        Kind::LeftKeeps => left,
        Kind::RightKeeps => right,
        Kind::BothKeep => coalesce(left, right),
    }
}

fn coalesce(left: Expr, right: Expr) -> Expr {
    let arguments = [left, right].map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
