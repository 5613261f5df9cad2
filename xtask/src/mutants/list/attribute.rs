//! Mistakes in what the attribute does to a function, and in what it says about one that it refuses.

use super::super::look::Look::{self, Tests};
use super::super::look::MACRO_SHAPES;
use super::super::mutant::Mutant;

const CHECK: &str = "dlock-macros/src/check.rs";

const DROPS: &[Look] = &[Tests(MACRO_SHAPES, &["f_drops::"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "first-argument-drops-first",
        "The arguments of a function drop in the order of their declaration",
        CHECK,
        "«plan.captures.reverse();»",
        "",
        DROPS,
    ),
    Mutant::new(
        "block-drops-as-declared",
        "What a block owns drops in the order of its declaration",
        CHECK,
        ".sort_by_key(|param| «rank(param).unwrap_or(usize::MAX)»);",
        "{ let _ = rank(param); 0 }",
        DROPS,
    ),
];
