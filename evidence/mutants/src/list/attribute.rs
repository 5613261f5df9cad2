//! Mistakes in what the attribute does to a function, and in its options.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, MACRO_SHAPES, MACROS, facade};
use super::super::mutant::Mutant;

const CAPTURES: &str = "dlock-macros/src/captures.rs";
const KEY: &str = "dlock-macros/src/key.rs";
const OPTIONAL: &str = "dlock-runtime/src/api/optional.rs";
const SITE: &str = "dlock-runtime/src/site.rs";

const ADVICE: &[Look] = &[Tests(MACROS, &["attribute::advice::"])];

const ATTRIBUTE: &[Look] = &[Tests(MACROS, &["attribute::", "elsewhere::"])];

const SHAPES: &[Look] = &[
    Tests(MACRO_SHAPES, &["enabled::"]),
    Tests(IN_PROCESS, &["detach::"]),
];

const COUNTED: &[Look] = &[Tests(facade("servers"), &["metrics::calls::"])];

pub(super) const ALL: &[Mutant] = &[
    Mutant::new(
        "block-drops-as-declared",
        "What a block owns drops in the order of its declaration",
        CAPTURES,
        ".sort_by_key(|param| «rank(param).unwrap_or(usize::MAX)»);",
        "{ let _ = rank(param); 0 }",
        ADVICE,
    ),
    Mutant::new(
        "enabled-without-watch",
        "The body of a function that may run without its lock goes on when it has lost its lease",
        OPTIONAL,
        "Some(guard) => «RunIfHeld::Held { body: guard.run_while_held(body), }»,",
        "{ let _ = guard; RunIfHeld::Free { body } }",
        SHAPES,
    ),
    Mutant::new(
        "key-in-two-modes",
        "A template may stand in a list twice if one is shared",
        KEY,
        "«seen.push((value, shared));»",
        "if !shared { seen.push((value, shared)); }",
        ATTRIBUTE,
    ),
    Mutant::new(
        "metric-ignored",
        "Metrics show the key's template although the function has a word of its own",
        SITE,
        "template: Some(«site.metric»),",
        "site.template",
        COUNTED,
    ),
];
