//! The rules, one row each.

mod compatibility;
mod decisions;
mod layers;
mod links;
mod modules;
mod text;

use crate::{Finding, Repository};

/// A rule: a function from a repository to its findings.
pub type Rule = fn(&Repository) -> Vec<Finding>;

/// All rules.
pub static ALL: &[Rule] = &[
    text::length,
    text::whitespace,
    text::unfinished,
    text::places,
    modules::names,
    modules::documentation,
    layers::edges,
    layers::lints,
    links::resolve,
    decisions::listed,
    compatibility::tested,
];
