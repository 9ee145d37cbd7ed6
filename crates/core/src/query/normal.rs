//! The normal form: queries that mean the same by the rules below have the same tree, text and hash.
//!
//! Negation stands at terms only, groups of one kind are one group, alternatives and conditions are sorted and none
//! stands twice. These rules hold also where a value is not known, so that nothing is decided otherwise by them.

use super::ast::Expr;

pub fn normal(expr: Expr) -> Expr {
    turned(expr, false)
}

/// `negated`: the normal form of the opposite.
fn turned(expr: Expr, negated: bool) -> Expr {
    match (expr, negated) {
        (Expr::Term(term), false) => Expr::Term(term),
        (Expr::Term(term), true) => Expr::Not(Box::new(Expr::Term(term))),
        (Expr::Not(inner), negated) => turned(*inner, !negated),
        (Expr::And(parts), false) | (Expr::Or(parts), true) => group(parts, negated, true),
        (Expr::Or(parts), false) | (Expr::And(parts), true) => group(parts, negated, false),
    }
}

fn group(parts: Vec<Expr>, negated: bool, all: bool) -> Expr {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match (turned(part, negated), all) {
            (Expr::And(inner), true) | (Expr::Or(inner), false) => flat.extend(inner),
            (other, _) => flat.push(other),
        }
    }
    flat.sort();
    flat.dedup();
    match (flat.len(), all) {
        (1, _) => flat.swap_remove(0),
        (_, true) => Expr::And(flat),
        (_, false) => Expr::Or(flat),
    }
}
