//! Rewrites of statements about the catalog into SQL that the planner takes.
//!
//! Most rules are the library's. Its rule that replaces subqueries it cannot plan by NULL is not among them: [`scalar`]
//! makes joins of them. So is not its cast to `regclass`, which gives NULL for names that mean nothing.

mod empty;
mod scalar;
mod tableoid;

use crate::pg_catalog::views;
use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Array, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, SetExpr, Statement, TableAlias, TableFactor, Value, VisitorMut,
};
use datafusion_pg_catalog::sql::rules::{
    CurrentUserVariableToSessionUserFunctionCall, FixArrayLiteral, PrependUnqualifiedPgTableName,
    RewritePgCatalogOperator, SqlStatementRewriteRule, StripCallableQualifier, StripCollate,
};
use std::ops::ControlFlow;

/// Rewrites a statement that touches the catalog. Its output columns have their names already.
pub(crate) fn rewrite(statement: &mut Statement) {
    let rules: [&dyn SqlStatementRewriteRule; 6] = [
        &PrependUnqualifiedPgTableName,
        &StripCallableQualifier,
        &FixArrayLiteral,
        &CurrentUserVariableToSessionUserFunctionCall,
        &StripCollate,
        &RewritePgCatalogOperator,
    ];
    for rule in rules {
        *statement = rule.rewrite(statement.clone());
    }
    let _ = walk::change(statement, &mut Names);
    tableoid::put(statement);
    empty::skip_rows_of_empty_tables(statement);
    let _ = walk::change(statement, &mut Expressions);
    scalar::join_scalar_subqueries(statement);
}

/// Puts the query of a system view in the place of its name, and qualifies names of system views.
struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let parts: Vec<String> = name
            .0
            .iter()
            .filter_map(|part| part.as_ident().map(crate::names::folded))
            .collect();
        let found = match parts.as_slice() {
            [name] => views::find(super::SCHEMA, name),
            [.., schema, name] => views::find(schema, name),
            [] => None,
        };
        if let Some((view, subquery)) = found.and_then(|view| Some((view, parsed(view.query)?))) {
            let alias = alias.take().unwrap_or_else(|| TableAlias {
                explicit: true,
                name: Ident::with_quote('"', view.name),
                columns: Vec::new(),
                at: None,
            });
            *factor = TableFactor::Derived {
                lateral: false,
                subquery,
                alias: Some(alias),
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }
}

fn parsed(query: &str) -> Option<Box<Query>> {
    let statements = crate::parse::parse_script(query).ok()?;
    match &*statements.first()?.parsed {
        crate::parse::Parsed::Sql { ast, .. } => match ast.as_ref() {
            Statement::Query(query) => Some(query.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Rules for single expressions.
struct Expressions;

impl VisitorMut for Expressions {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => spell_out_list(right),
            Expr::Function(function) if is_named(function, "array") => {
                if let FunctionArguments::Subquery(query) = &function.args {
                    *expr = list_of(query);
                }
            }
            Expr::Function(function) if is_named(function, "generate_subscripts") => {
                if let Some(subscripts) = subscripts_of(function) {
                    *expr = subscripts;
                }
            }
            Expr::Function(function) if is_named(function, "set_config") => {
                // Assigned already, by the session: what is left is the value.
                if let FunctionArguments::List(list) = &function.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.get(1)
                {
                    *expr = value.clone();
                }
            }
            Expr::Subquery(query) => {
                if let Some(base_type) = base_type_of_domain(query) {
                    *expr = base_type;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `generate_subscripts(list, 1)` in terms of functions that are there. The vectors of PostgreSQL's catalog count from 0, its
/// arrays from 1.
fn subscripts_of(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) = list.args.first()? else {
        return None;
    };
    let name = of.to_string();
    let column = name.rsplit('.').next().unwrap_or_default().trim_matches('"');
    let first = usize::from(!["indkey", "indclass", "indcollation", "indoption", "proargtypes"].contains(&column));
    let sql = format!("unnest(range({first}, array_length({of}, 1)::bigint + {first}))");
    crate::parse::parse_expression(&sql).ok().map(|parsed| parsed.expr)
}

fn is_named(function: &Function, name: &str) -> bool {
    let last = function.name.0.last();
    matches!(last, Some(ObjectNamePart::Identifier(ident)) if ident.value.eq_ignore_ascii_case(name))
}

/// `'{a,b}'` as an operand of ANY and ALL is the list of texts it spells.
fn spell_out_list(operand: &mut Expr) {
    let Expr::Value(value) = &*operand else {
        return;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return;
    };
    let Some(items) = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return;
    };
    let text =
        |item: &str| Expr::Value(Value::SingleQuotedString(item.trim().trim_matches('"').into()).with_empty_span());
    *operand = Expr::Array(Array {
        elem: items.split(',').filter(|item| !item.is_empty()).map(text).collect(),
        named: true,
    });
}

/// `ARRAY(SELECT x ...)` as an aggregation, which is NULL and not empty where there are no rows; `array_to_string` and
/// clients take both alike. Options of relations are not told (they may be secrets), so a list of them is empty.
fn list_of(query: &Query) -> Expr {
    let mut query = query.clone();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return no_texts();
    };
    let lists_options = select.from.iter().any(|from| lists_options(&from.relation));
    let [item] = select.projection.as_mut_slice() else {
        return no_texts();
    };
    if lists_options {
        return no_texts();
    }
    use datafusion::sql::sqlparser::ast::{OrderByKind, SelectItem};
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) = item else {
        return no_texts();
    };
    let mut aggregate = call("array_agg", vec![value.clone()]);
    // Within a list of one column, an order by position is an order by that column.
    if let (Some(order), Expr::Function(function)) = (query.order_by.take(), &mut aggregate)
        && let (OrderByKind::Expressions(orders), FunctionArguments::List(list)) = (order.kind, &mut function.args)
    {
        let orders = orders.into_iter().map(|mut order| {
            if matches!(&order.expr, Expr::Value(_)) {
                order.expr = value.clone();
            }
            order
        });
        let clause = datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy(orders.collect());
        list.clauses.push(clause);
    }
    *item = SelectItem::UnnamedExpr(aggregate);
    Expr::Subquery(Box::new(query))
}

/// Whether a table lists options: `pg_options_to_table(...)`, or `unnest` of a column of options.
fn lists_options(factor: &TableFactor) -> bool {
    let is_options = |expr: &Expr| matches!(expr, Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|part| part.value.ends_with("options")));
    match factor {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter().all(is_options),
        TableFactor::Table { args: Some(args), .. } => args
            .args
            .iter()
            .all(|argument| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_options(expr))),
        TableFactor::Function { args, .. } => args
            .iter()
            .all(|argument| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_options(expr))),
        _ => false,
    }
}

/// An empty list of texts.
fn no_texts() -> Expr {
    use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, CastKind, DataType};
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(Expr::Array(Array {
            elem: Vec::new(),
            named: true,
        })),
        data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None)),
        array: false,
        format: None,
    }
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The base type of a domain, which asyncpg climbs to by a correlated recursive query that cannot be planned. All
/// domains here (those of `information_schema`) stand on base types, so one step is the whole way.
fn base_type_of_domain(query: &Query) -> Option<Expr> {
    let with = query.with.as_ref().filter(|with| with.recursive)?;
    let [bases] = with.cte_tables.as_slice() else {
        return None;
    };
    let SetExpr::SetOperation { left, .. } = bases.query.body.as_ref() else {
        return None;
    };
    let SetExpr::Select(first) = left.as_ref() else {
        return None;
    };
    let climbs = first.projection.first()?.to_string().contains("typbasetype");
    let Some(Expr::BinaryOp { right, .. }) = first.selection.as_ref() else {
        return None;
    };
    let Expr::CompoundIdentifier(domain) = right.as_ref() else {
        return None;
    };
    let mut base = domain.clone();
    *base.last_mut()? = Ident::new("typbasetype");
    climbs.then_some(Expr::CompoundIdentifier(base))
}
