//! Whether a partial index holds every document that a query can match.

use super::bounds::{Condition, accepts_missing, conditions_at, has_text};
use diwan_query::filter::Filter;
use diwan_query::filter::{Operand, Predicate};
use diwan_query::mango::{self, Test, compare};
use diwan_value::compare_with;
use std::cmp::Ordering;

/// Whether every match of `query` matches `partial`. May return false although it is so.
pub(crate) fn implies(query: &Filter, partial: &Filter) -> bool {
    match partial {
        Filter::AlwaysTrue => true,
        Filter::And(all) => all.children().iter().all(|one| implies(query, one)),
        Filter::Or(any) => {
            any.iter().any(|one| implies(query, one))
                || matches!(query, Filter::Or(branches) if branches.iter().all(|branch| implies(branch, partial)))
        }
        Filter::Path(condition) => {
            conditions_at(query, &condition.path).iter().any(|own| match own {
                Condition::Match(predicate) => predicate_implies(predicate, &condition.predicate),
                Condition::Compare(_) => false,
            }) || matches!(query, Filter::Or(branches) if branches.iter().all(|branch| implies(branch, partial)))
        }
        _ => false,
    }
}

/// Whether a filter may compare text, so that its matches depend on the collation.
pub(crate) fn compares_text(filter: &Filter) -> bool {
    match filter {
        Filter::AlwaysTrue | Filter::AlwaysFalse => false,
        Filter::And(all) => all.children().iter().any(compares_text),
        Filter::Or(any) => any.iter().any(compares_text),
        Filter::Path(condition) => match condition.predicate.as_ref() {
            Predicate::Exists | Predicate::Type(_) => false,
            Predicate::Eq(operand)
            | Predicate::Lt(operand)
            | Predicate::Lte(operand)
            | Predicate::Gt(operand)
            | Predicate::Gte(operand) => has_text(operand.value()),
            _ => true,
        },
        _ => true,
    }
}

fn predicate_implies(query: &Predicate, partial: &Predicate) -> bool {
    match (query, partial) {
        (_, Predicate::Exists) => !accepts_missing(query),
        (Predicate::Eq(mine), _) => operand_satisfies(mine, partial),
        (Predicate::In(set), _) if set.patterns().is_empty() => {
            set.values().iter().all(|operand| operand_satisfies(operand, partial))
        }
        (Predicate::Gt(mine), Predicate::Gt(theirs) | Predicate::Gte(theirs))
        | (Predicate::Gte(mine), Predicate::Gte(theirs)) => order(mine, theirs).is_some_and(Ordering::is_ge),
        (Predicate::Gte(mine), Predicate::Gt(theirs)) => order(mine, theirs).is_some_and(Ordering::is_gt),
        (Predicate::Lt(mine), Predicate::Lt(theirs) | Predicate::Lte(theirs))
        | (Predicate::Lte(mine), Predicate::Lte(theirs)) => order(mine, theirs).is_some_and(Ordering::is_le),
        (Predicate::Lte(mine), Predicate::Lt(theirs)) => order(mine, theirs).is_some_and(Ordering::is_lt),
        (Predicate::Mango(mine), _) => mango_implies(mine, partial),
        (Predicate::Type(mine), Predicate::Type(theirs)) => mine.types().all(|tag| theirs.contains(tag)),
        _ => false,
    }
}

/// Like [`predicate_implies`], for a condition of a CouchDB selector.
fn mango_implies(query: &mango::Condition, partial: &Predicate) -> bool {
    let equal = |operand: &Operand| match partial {
        Predicate::Mango(theirs) => theirs.accepts(operand.value()),
        _ => operand_satisfies(operand, partial),
    };
    match (&query.test, partial) {
        (Test::Eq(operand), _) => equal(operand),
        // An array matches by one of its elements, as with MongoDB's operators.
        (Test::In(set), Predicate::Mango(theirs)) => match &theirs.test {
            Test::In(wanted) => {
                let known = |operand: &Operand| wanted.values().iter().any(|one| one == operand);
                set.values().iter().all(known)
            }
            Test::Exists(flag) => *flag,
            _ => false,
        },
        (Test::In(set), _) => set.values().iter().all(equal),
        (Test::Exists(false), Predicate::Mango(theirs)) => matches!(theirs.test, Test::Exists(false)),
        (mine, Predicate::Mango(theirs)) => {
            let order = |mine: &Operand, theirs: &Operand| compare(mine.value(), theirs.value());
            match (mine, &theirs.test) {
                (_, Test::Exists(true)) => true,
                (Test::Gt(mine), Test::Gt(theirs) | Test::Gte(theirs) | Test::Ne(theirs))
                | (Test::Gte(mine), Test::Gte(theirs)) => order(mine, theirs).is_ge(),
                (Test::Gte(mine), Test::Gt(theirs) | Test::Ne(theirs)) => order(mine, theirs).is_gt(),
                (Test::Lt(mine), Test::Lt(theirs) | Test::Lte(theirs) | Test::Ne(theirs))
                | (Test::Lte(mine), Test::Lte(theirs)) => order(mine, theirs).is_le(),
                (Test::Lte(mine), Test::Lt(theirs) | Test::Ne(theirs)) => order(mine, theirs).is_lt(),
                (Test::Ne(mine), Test::Ne(theirs)) => mine == theirs,
                (Test::Type { types: mine, .. }, Test::Type { types: theirs, .. }) => {
                    mine.types().all(|tag| theirs.contains(tag))
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether a value equal to `mine` satisfies `partial`.
fn operand_satisfies(mine: &Operand, partial: &Predicate) -> bool {
    match partial {
        Predicate::Eq(theirs) => order(mine, theirs) == Some(Ordering::Equal),
        Predicate::Gt(theirs) => order(mine, theirs) == Some(Ordering::Greater),
        Predicate::Gte(theirs) => order(mine, theirs).is_some_and(Ordering::is_ge),
        Predicate::Lt(theirs) => order(mine, theirs) == Some(Ordering::Less),
        Predicate::Lte(theirs) => order(mine, theirs).is_some_and(Ordering::is_le),
        Predicate::In(set) => set.values().iter().any(|theirs| order(mine, theirs) == Some(Ordering::Equal)),
        Predicate::Type(types) => types.contains(mine.value().tag()),
        _ => false,
    }
}

/// The order of two operands of comparable types under the index's collation.
fn order(mine: &Operand, theirs: &Operand) -> Option<Ordering> {
    let (left, right) = (mine.value(), theirs.value());
    let same_bracket = left.tag() == right.tag() || (left.is_number() && right.is_number());
    same_bracket.then(|| compare_with(left, right, theirs.collator()))
}
