//! How operators bind in PostgreSQL, where the parser has it otherwise.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Ast, UnaryOperator};

/// The expression bound as PostgreSQL binds it; `None`: it is.
pub(super) fn bound(expr: &Ast) -> Option<Ast> {
    bound_signs(expr).or_else(|| bound_prefix(expr))
}

/// `-a ^ b` as `(-a) ^ b`: the sign binds closer than the power, which the parser has the other way round.
fn bound_signs(expr: &Ast) -> Option<Ast> {
    let Ast::UnaryOp {
        op: UnaryOperator::Minus,
        expr,
    } = expr
    else {
        return None;
    };
    fn signed(expr: &Ast) -> Ast {
        match expr {
            Ast::BinaryOp {
                left,
                op: BinaryOperator::PGExp,
                right,
            } => Ast::BinaryOp {
                left: Box::new(signed(left)),
                op: BinaryOperator::PGExp,
                right: right.clone(),
            },
            other => Ast::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(other.clone()),
            },
        }
    }
    let is_power = matches!(
        expr.as_ref(),
        Ast::BinaryOp {
            op: BinaryOperator::PGExp,
            ..
        }
    );
    is_power.then(|| signed(expr))
}

/// `@ a + b` as `@ (a + b)`: prefixes other than signs bind less closely than sums, which the parser does not know.
fn bound_prefix(expr: &Ast) -> Option<Ast> {
    /// Takes the prefix off the leftmost operand of a sum.
    fn without_prefix(expr: &Ast) -> Option<(UnaryOperator, Ast)> {
        match expr {
            Ast::BinaryOp {
                left,
                op: op @ (BinaryOperator::Plus | BinaryOperator::Minus),
                right,
            } => {
                let (prefix, left) = without_prefix(left)?;
                Some((
                    prefix,
                    Ast::BinaryOp {
                        left: Box::new(left),
                        op: op.clone(),
                        right: right.clone(),
                    },
                ))
            }
            Ast::UnaryOp { op, expr } if is_prefix(op) => Some((*op, expr.as_ref().clone())),
            _ => None,
        }
    }
    let is_sum = matches!(
        expr,
        Ast::BinaryOp {
            op: BinaryOperator::Plus | BinaryOperator::Minus,
            ..
        }
    );
    let (op, rest) = is_sum.then(|| without_prefix(expr)).flatten()?;
    let expr = Box::new(Ast::Nested(Box::new(rest)));
    Some(Ast::UnaryOp { op, expr })
}

fn is_prefix(op: &UnaryOperator) -> bool {
    use UnaryOperator::{BitwiseNot, PGAbs, PGCubeRoot, PGSquareRoot};
    matches!(op, PGAbs | PGSquareRoot | PGCubeRoot | BitwiseNot)
}
