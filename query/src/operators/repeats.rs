//! ROLLUP and CUBE over a key that is named twice, as the grouping sets that they stand for: the planner has no place for
//! two columns of one name.

use datafusion::sql::sqlparser::ast::{Expr, Ident};

/// Keys of a CUBE that are written out at most; more are refused elsewhere.
const CUBE_KEYS_MAX: usize = 12;

/// Gives a ROLLUP or CUBE over a repeated key the form of GROUPING SETS.
pub(super) fn without(item: &mut Expr) {
    let sets = match item {
        Expr::Rollup(keys) if has_repeats(keys) => (0..=keys.len()).rev().map(|end| once(keys[..end].iter())).collect(),
        Expr::Cube(keys) if has_repeats(keys) && keys.len() <= CUBE_KEYS_MAX => {
            let masks = (0..1usize << keys.len()).rev();
            let chosen = |mask: usize| keys.iter().enumerate().filter(move |(at, _)| mask >> at & 1 == 1);
            masks.map(|mask| once(chosen(mask).map(|(_, key)| key))).collect()
        }
        Expr::GroupingSets(sets) => sets.iter().map(|set| once([set].into_iter())).collect(),
        _ => return,
    };
    *item = Expr::GroupingSets(sets);
}

fn has_repeats(keys: &[Vec<Expr>]) -> bool {
    once(keys.iter()).len() < keys.iter().map(Vec::len).sum()
}

/// The expressions of some keys, each once.
fn once<'a>(keys: impl Iterator<Item = &'a Vec<Expr>>) -> Vec<Expr> {
    let mut kept: Vec<Expr> = Vec::new();
    for key in keys.flatten() {
        if !kept.iter().any(|known| is_same(known, key)) {
            kept.push(key.clone());
        }
    }
    kept
}

/// Whether two keys are one: as they are written, or as a column with and without its table.
fn is_same(one: &Expr, other: &Expr) -> bool {
    let column = |expr: &Expr| -> Option<(usize, String)> {
        let folded = |ident: &Ident| crate::names::folded(ident);
        match expr {
            Expr::Identifier(ident) => Some((1, folded(ident))),
            Expr::CompoundIdentifier(parts) => Some((parts.len(), parts.last().map(folded)?)),
            _ => None,
        }
    };
    match (column(one), column(other)) {
        (Some((1, one)), Some((parts, other))) if parts > 1 => one == other,
        (Some((parts, one)), Some((1, other))) if parts > 1 => one == other,
        _ => one.to_string() == other.to_string(),
    }
}
