//! What the names in a FROM clause mean, and the columns that `*` stands for.
//!
//! # Not here
//! What merged columns are replaced with: [`super`].

use super::{Kind, kind_of, merge, shared_columns};
use crate::catalog::{Catalog, Object};
use crate::names::{folded, public_name};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, WildcardAdditionalOptions,
};
use std::collections::HashMap;

/// The relations that a name in FROM can mean.
pub(super) struct Known<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) common: &'a [HashMap<String, Option<Vec<String>>>],
}

impl Known<'_> {
    /// The columns of what a name means, if they are known.
    fn columns(&self, name: &ObjectName) -> Option<Vec<String>> {
        let name = public_name(name)?;
        match self.common.iter().rev().find_map(|names| names.get(&name)) {
            Some(columns) => columns.clone(),
            None => self.catalog.get(&name).map(column_names),
        }
    }
}

/// A relation of FROM: what its columns are qualified with, and their names if the catalog knows them.
pub(super) struct Relation {
    pub(super) qualifier: Ident,
    pub(super) columns: Option<Vec<String>>,
}

impl Relation {
    pub(super) fn of(factor: &TableFactor, known: &Known) -> Option<Relation> {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let qualifier = match alias {
                    Some(alias) => alias.name.clone(),
                    None => name.0.last()?.as_ident()?.clone(),
                };
                let renames = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let columns = known.columns(name).filter(|_| !renames);
                Some(Relation { qualifier, columns })
            }
            TableFactor::Derived {
                alias: Some(alias),
                subquery,
                ..
            } => {
                let columns = columns_of(alias, subquery, known);
                let qualifier = alias.name.clone();
                Some(Relation { qualifier, columns })
            }
            _ => None,
        }
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.columns
            .as_ref()
            .is_some_and(|columns| columns.iter().any(|known| known == column))
    }

    fn star(&self) -> Option<Vec<StarColumn>> {
        let columns = self.columns.as_ref()?.iter().map(|name| StarColumn {
            name: name.clone(),
            expr: self.column(name),
        });
        Some(columns.collect())
    }

    pub(super) fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.qualifier.clone(), Ident::with_quote('"', name)])
    }
}

/// The names of the columns of a query under an alias, if each is known.
pub(super) fn columns_of(alias: &TableAlias, query: &Query, known: &Known) -> Option<Vec<String>> {
    let mut names = output_names(&query.body, known);
    if !alias.columns.is_empty() {
        let renamed = alias.columns.iter().map(|column| folded(&column.name));
        let rest = names.iter().flatten().skip(alias.columns.len()).cloned();
        names = Some(renamed.chain(rest).collect());
    }
    names
}

fn output_names(body: &SetExpr, known: &Known) -> Option<Vec<String>> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, .. } => return output_names(left, known),
        SetExpr::Query(query) => return output_names(&query.body, known),
        _ => return None,
    };
    let mut names = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => names.push(folded(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => names.push(folded(ident)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => names.push(parts.last().map(folded)?),
            SelectItem::Wildcard(options) if is_plain(options) => {
                names.extend(star_columns(select, known)?.into_iter().map(|column| column.name));
            }
            _ => return None,
        }
    }
    Some(names)
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        ..
    } = options;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
}

/// Puts the columns that `*` stands for in its place where there are merged ones: those first, in their order, once each.
pub(super) fn expand_stars(select: &mut Select, known: &Known) {
    let merges = |join: &Join| kind_of(&join.join_operator).is_some_and(|(_, constraint)| is_merging(constraint));
    if !select.from.iter().any(|from| from.joins.iter().any(merges)) {
        return;
    }
    let Some(columns) = star_columns(select, known) else {
        return;
    };
    let items = std::mem::take(&mut select.projection);
    for item in items {
        match item {
            SelectItem::Wildcard(options) if is_plain(&options) => {
                select.projection.extend(columns.iter().map(StarColumn::item));
            }
            other => select.projection.push(other),
        }
    }
}

fn is_merging(constraint: &JoinConstraint) -> bool {
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

/// A column that `*` stands for.
#[derive(Clone)]
struct StarColumn {
    name: String,
    expr: Expr,
}

impl StarColumn {
    fn item(&self) -> SelectItem {
        match &self.expr {
            plain @ Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(plain.clone()),
            expr => SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', &self.name),
            },
        }
    }
}

/// What `*` stands for in a SELECT, if the columns of all relations are known.
fn star_columns(select: &Select, known: &Known) -> Option<Vec<StarColumn>> {
    let mut columns = Vec::new();
    for from in &select.from {
        let mut left = Relation::of(&from.relation, known)?.star()?;
        for join in &from.joins {
            let right = Relation::of(&join.relation, known)?;
            let merging = match &join.join_operator {
                JoinOperator::CrossJoin(_) => None,
                operator => Some(kind_of(operator)?).filter(|(_, constraint)| is_merging(constraint)),
            };
            left = match merging {
                Some((kind, constraint)) => merged_star(kind, constraint, left, &right)?,
                None => [left, right.star()?].concat(),
            };
        }
        columns.append(&mut left);
    }
    Some(columns)
}

/// The columns of a join with merged ones (ISO/IEC 9075-2, 7.10 joined table): those, the left side's others, the right side's others.
fn merged_star(
    kind: Kind,
    constraint: &JoinConstraint,
    left: Vec<StarColumn>,
    right: &Relation,
) -> Option<Vec<StarColumn>> {
    let shared: Vec<String> = match constraint {
        JoinConstraint::Natural => {
            let names = left.iter().map(|column| column.name.clone());
            names.filter(|name| right.has(name)).collect()
        }
        using => shared_columns(using, &[], right),
    };
    let mut columns = Vec::new();
    for name in &shared {
        let mut owners = left.iter().filter(|column| column.name == *name);
        let (owner, None) = (owners.next()?, owners.next()) else {
            return None;
        };
        columns.push(StarColumn {
            name: name.clone(),
            expr: merge(kind, owner.expr.clone(), right.column(name)),
        });
    }
    let others = left.into_iter().chain(right.star()?);
    columns.extend(others.filter(|column| !shared.contains(&column.name)));
    Some(columns)
}

fn column_names(object: &Object) -> Vec<String> {
    let columns = match object {
        Object::Table(table) => &table.columns,
        Object::View(view) => &view.columns,
        Object::MaterializedView(view) => &view.columns,
    };
    columns.fields().iter().map(|field| field.name().clone()).collect()
}
