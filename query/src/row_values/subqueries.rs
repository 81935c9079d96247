//! Rows against the rows of a subquery: IN, ANY, ALL, and a comparison with the one row that a subquery has.
//!
//! Each becomes subqueries that compare field by field. `(a, b) IN (SELECT x, y ...)` is true where a row with `a = x AND
//! b = y` exists; else NULL where there is one for which that is unknown; else false. ANY with any operator is alike, and
//! ALL is that no row is without it. Of a condition NULL is as good as false, so that there the one test or the other
//! suffices, and both are joins.
//!
//! # Not here
//! Comparisons of rows that are written out: [`super`]. One column against a subquery: [`crate::decorrelate`].

use super::{by_operator, fields_of, negated, unequal, without_parentheses};
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, UnaryOperator, Value, Visitor,
};
use std::ops::ControlFlow;

/// Expressions that subqueries said twice may add to a statement.
const COPIED_MAX: usize = 20_000;

/// Tells the relations and columns made here from all that have a name in the text.
const HIDDEN: char = '\u{1}';

/// The rewrite of one statement.
#[derive(Default)]
pub(super) struct Tests {
    /// How many relations were made.
    made: usize,
    /// How many expressions were copied.
    copied: usize,
}

/// A row that is compared with all rows of a subquery.
struct Test<'a> {
    row: Vec<&'a Expr>,
    op: BinaryOperator,
    subquery: &'a Query,
    /// It is asked whether there is a row of which the comparison is not true.
    of_all: bool,
    /// The answer is the opposite one.
    negated: bool,
}

impl<'a> Test<'a> {
    fn of(expr: &'a Expr) -> Option<Test<'a>> {
        let (left, op, subquery, of_all, negated) = match expr {
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => (expr, BinaryOperator::Eq, subquery.as_ref(), false, *negated),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => (left, compare_op.clone(), query_of(right)?, false, false),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => (left, compare_op.clone(), query_of(right)?, true, true),
            _ => return None,
        };
        let row = fields_of(left)?;
        Some(Test {
            row,
            op,
            subquery,
            of_all,
            negated,
        })
    }
}

fn query_of(expr: &Expr) -> Option<&Query> {
    match without_parentheses(expr) {
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

impl Tests {
    /// Puts the conditions of a SELECT, of which NULL is as good as false, in a form for that.
    ///
    /// # Errors
    /// As [`Tests::value`].
    pub(super) fn conditions(&mut self, select: &mut Select) -> Result<()> {
        for condition in select.selection.iter_mut().chain(&mut select.having) {
            self.condition(condition)?;
        }
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(condition) = on(&mut join.join_operator) {
                self.condition(condition)?;
            }
        }
        Ok(())
    }

    fn condition(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Nested(inner) => return self.condition(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And | BinaryOperator::Or,
                right,
            } => {
                self.condition(left)?;
                return self.condition(right);
            }
            _ => {}
        }
        let (tested, turned) = match expr {
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            } => (without_parentheses(inner), true),
            ref other => (&**other, false),
        };
        let Some(mut test) = Test::of(tested) else {
            return Ok(());
        };
        test.negated ^= turned;
        let (found, unknown) = self.tests(&test)?;
        *expr = match test.negated {
            true => super::all(vec![negated(true, found), negated(true, unknown)]),
            false => found,
        };
        Ok(())
    }

    /// A test, or a comparison with a subquery's row, as a value; `None`: it is neither.
    ///
    /// # Errors
    /// 42601: the subquery has more or fewer columns than the row. 42883: the operator compares no rows. 54001: subqueries
    /// nest so deep that saying them twice makes too much. 0A000: a field is an aggregate.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        if let Expr::BinaryOp { left, op, right } = expr
            && let (Some(row), Some(query)) = (fields_of(left), query_of(right))
        {
            return self.of_one_row(&row, op, query).map(Some);
        }
        let Some(test) = Test::of(expr) else {
            return Ok(None);
        };
        let (found, unknown) = self.tests(&test)?;
        let null = Expr::Value(Value::Null.with_empty_span());
        let is_true = super::any(vec![found, super::all(vec![unknown, null])]);
        Ok(Some(negated(test.negated, is_true)))
    }

    /// Whether a row of the subquery decides, and whether the comparison with one is unknown.
    fn tests(&mut self, test: &Test) -> Result<(Expr, Expr)> {
        self.copied += size_of(test.subquery);
        if self.copied > COPIED_MAX {
            let message = "cannot plan query: rows are compared with subqueries inside one another too often";
            let error = Error::new(ErrorKind::Invalid, "SQL-0327", message).sqlstate("54001");
            return Err(error.attempt("EXISTS with a condition for each field"));
        }
        check_fields(&test.row)?;
        let (relation, fields) = self.relation(test.row.len(), test.subquery)?;
        let compared = compared(&test.row, &test.op, &fields)?;
        let unknown = Expr::IsNull(Box::new(compared.clone()));
        let decides = negated(test.of_all, compared);
        Ok((exists(relation.clone(), decides)?, exists(relation, unknown)?))
    }

    /// A comparison with the one row that a subquery has at most.
    fn of_one_row(&mut self, row: &[&Expr], op: &BinaryOperator, query: &Query) -> Result<Expr> {
        check_fields(row)?;
        let (relation, fields) = self.relation(row.len(), query)?;
        let compared = compared(row, op, &fields)?;
        let mut subquery = template(relation)?;
        let select = select_of(&mut subquery)?;
        select.projection = vec![SelectItem::ExprWithAlias {
            expr: compared,
            alias: Ident::with_quote('"', "?column?"),
        }];
        Ok(Expr::Subquery(Box::new(subquery)))
    }

    /// A subquery as a relation, and the columns of it.
    fn relation(&mut self, width: usize, query: &Query) -> Result<(TableFactor, Vec<Expr>)> {
        if let Some(found) = width_of(&query.body)
            && found != width
        {
            let which = if found < width { "few" } else { "many" };
            let message = format!("cannot compare rows: subquery has too {which} columns");
            let error = Error::new(ErrorKind::Invalid, "SQL-0320", message).sqlstate("42601");
            return Err(error
                .fact("row", format!("{width} fields"))
                .fact("subquery", format!("{found} columns")));
        }
        self.made += 1;
        let relation = Ident::with_quote('"', format!("row{HIDDEN}{}", self.made));
        let names = (1..=width).map(|number| Ident::with_quote('"', format!("field_{number}{HIDDEN}{}", self.made)));
        let names: Vec<Ident> = names.collect();
        let columns = names.iter().map(|name| TableAliasColumnDef {
            name: name.clone(),
            data_type: None,
        });
        let factor = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query.clone()),
            alias: Some(TableAlias {
                explicit: true,
                name: relation.clone(),
                columns: columns.collect(),
                at: None,
            }),
            sample: None,
        };
        let fields = names
            .into_iter()
            .map(|name| Expr::CompoundIdentifier(vec![relation.clone(), name]));
        Ok((factor, fields.collect()))
    }
}

/// Refuses fields that could not be moved into a subquery.
fn check_fields(row: &[&Expr]) -> Result<()> {
    if !row.iter().any(|field| crate::grouping::is_of_rows(field)) {
        return Ok(());
    }
    let what = "an aggregate or a window function in a row that is compared with a subquery";
    let message = format!("cannot plan query: {what} is not supported yet");
    let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
    Err(error.attempt("compute it in a subquery in FROM, and compare its column"))
}

fn compared(row: &[&Expr], op: &BinaryOperator, fields: &[Expr]) -> Result<Expr> {
    let fields: Vec<&Expr> = fields.iter().collect();
    if row.is_empty() {
        return Err(unequal(row.len(), fields.len()));
    }
    by_operator(row, op, &fields)?.ok_or_else(|| {
        let message = format!("operator does not exist: record {op} record");
        Error::new(ErrorKind::Invalid, "SQL-0319", message).sqlstate("42883")
    })
}

/// The condition in ON of a join.
fn on(operator: &mut JoinOperator) -> Option<&mut Expr> {
    match operator {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

/// How many columns a query has, where its text tells.
fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        SetExpr::SetOperation { left, .. } => width_of(left),
        SetExpr::Query(query) => width_of(&query.body),
        _ => None,
    }
}

/// How many expressions a query has, those of its subqueries included.
fn size_of(query: &Query) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();
        fn pre_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(1);
    let _ = walk::read(query, &mut count);
    count.0
}

fn exists(relation: TableFactor, condition: Expr) -> Result<Expr> {
    let mut subquery = template(relation)?;
    select_of(&mut subquery)?.selection = Some(condition);
    Ok(Expr::Exists {
        subquery: Box::new(subquery),
        negated: false,
    })
}

/// `SELECT 1 FROM relation`.
fn template(relation: TableFactor) -> Result<Query> {
    let parsed = crate::parse::parse_expression("EXISTS (SELECT 1 FROM r)")?;
    let Expr::Exists { mut subquery, .. } = parsed.expr else {
        return Err(Error::bug("EXISTS is not read as such"));
    };
    if let Some(from) = select_of(&mut subquery)?.from.first_mut() {
        from.relation = relation;
    }
    Ok(*subquery)
}

fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(Error::bug("SELECT is not read as such")),
    }
}
