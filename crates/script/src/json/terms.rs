//! The order of Erlang terms, which CouchDB uses for values rather than keys: numbers, then `false`, `null` and `true`,
//! objects, arrays, strings. Strings compare by bytes, and members in document order.

use super::{Kind, Number, elements, kind, members, unquote};
use std::cmp::Ordering;

/// Compares two validated values.
pub fn compare_terms(one: &str, other: &str) -> Ordering {
    let kinds = (kind(one), kind(other));
    let by_rank = rank(kinds.0).cmp(&rank(kinds.1));
    if by_rank.is_ne() {
        return by_rank;
    }
    match kinds.0 {
        Some(Kind::Number) => match (Number::parse(one), Number::parse(other)) {
            (Some(one), Some(other)) => one.compare(other),
            _ => Ordering::Equal,
        },
        Some(Kind::String) => unquote(one).cmp(&unquote(other)),
        Some(Kind::Array) => {
            first_difference(elements(one), elements(other), |(one, other)| compare_terms(one, other))
        }
        Some(Kind::Object) => first_difference(members(one), members(other), |(one, other)| {
            unquote(one.0).cmp(&unquote(other.0)).then_with(|| compare_terms(one.1, other.1))
        }),
        _ => Ordering::Equal,
    }
}

/// Compares two lists. A list that is a prefix of the other is the smaller one.
fn first_difference<T>(
    mut one: impl Iterator<Item = T>,
    mut other: impl Iterator<Item = T>,
    compare: impl Fn((T, T)) -> Ordering,
) -> Ordering {
    loop {
        let order = match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) => compare((one, other)),
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn rank(kind: Option<Kind>) -> u8 {
    match kind {
        None | Some(Kind::Number) => 0,
        Some(Kind::False) => 1,
        Some(Kind::Null) => 2,
        Some(Kind::True) => 3,
        Some(Kind::Object) => 4,
        Some(Kind::Array) => 5,
        Some(Kind::String) => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compare_terms_follows_erlang_order() {
        let sorted = [
            "-1",
            "0.5",
            "2",
            "10",
            "false",
            "null",
            "true",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":2,"b":0}"#,
            r#"{"b":0}"#,
            "[]",
            "[1]",
            "[1,0]",
            "[2]",
            r#""""#,
            r#""B""#,
            r#""a""#,
            r#""\u00e9""#,
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (place, other) in sorted.iter().enumerate() {
                assert_eq!(compare_terms(one, other), at.cmp(&place), "{one} {other}");
            }
        }
        assert_eq!(compare_terms("1", "1.0"), Ordering::Equal);
    }
}
