//! Where `IN (subquery)` may stand.
//!
//! It has three values: NULL where no row is equal and one is NULL. DataFusion answers with two, which is right as a
//! condition by itself (`NOT IN` too, which it joins with NULLs in mind) and under OR, where NULL is as good as false.
//! Anywhere else it is refused.
//!
//! Of a condition on the value of NOT IN, DataFusion concludes the same for the subquery's rows, which leaves out those
//! that are NULL. So the value is made an expression that it does not see through.

use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::tree_node::Transformed;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Checks a condition.
///
/// # Errors
/// 0A000: it would need the third value.
pub(super) fn check(condition: &Expr) -> Result<()> {
    check_part(condition, false)
}

/// A condition whose NOT IN keeps the subquery's rows that are NULL.
pub(super) fn shielded(condition: Expr) -> Result<Expr> {
    let shielded = condition.transform_up(|expr| match expr {
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) if matches!(*expr, Expr::Column(_)) => {
            let same = Arc::new(ScalarUDF::from(Same {
                signature: Signature::any(1, Volatility::Immutable),
            }));
            let expr = Box::new(Expr::ScalarFunction(ScalarFunction::new_udf(same, vec![*expr])));
            Ok(Transformed::yes(Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            })))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(shielded?.data)
}

/// `same(value)`: the value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Same {
    signature: Signature,
}

impl ScalarUDFImpl for Same {
    fn name(&self) -> &str {
        "same"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

fn check_part(condition: &Expr, under_or: bool) -> Result<()> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
            let under_or = under_or || *op == Operator::Or;
            check_part(left, under_or)?;
            check_part(right, under_or)
        }
        Expr::InSubquery(test) if under_or && test.negated => Err(refused("NOT IN (subquery) under OR")),
        Expr::InSubquery(_) => Ok(()),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(test) if !under_or && !test.negated => Ok(()),
            other => refuse_any(other),
        },
        other => refuse_any(other),
    }
}

fn refuse_any(expr: &Expr) -> Result<()> {
    let mut found = false;
    expr.apply(|part| {
        found |= matches!(part, Expr::InSubquery(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match found {
        true => Err(refused("IN (subquery) inside another expression")),
        false => Ok(()),
    }
}

fn refused(what: &str) -> datafusion::error::DataFusionError {
    let message = format!("cannot plan query: {what} is not supported yet");
    let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
    crate::provider::outside(error.attempt("write it as EXISTS with an equality, or as a condition by itself"))
}
