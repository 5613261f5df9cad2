//! Mistakes in what the attribute does to a function, and in what it says about one that it refuses.

use super::super::look::Look::{self, Tests};
use super::super::look::MACROS;
use super::super::mutant::Mutant;

const BLOCKING: &str = "dlock-macros/src/blocking.rs";
const CAPTURES: &str = "dlock-macros/src/captures.rs";
const LEASE: &str = "dlock-macros/src/lease.rs";
const ROOTS: &str = "dlock-macros/src/roots.rs";
const TARGET: &str = "dlock-macros/src/target.rs";

const ADVICE: &[Look] = &[Tests(MACROS, &["attribute::advice::"])];

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
        "taken-below-is-captured",
        "The body owns an argument that an attribute below has moved",
        CAPTURES,
        "if «is_taken_below(&name, &target.attrs)» {",
        "false && is_taken_below(&name, &target.attrs)",
        ADVICE,
    ),
    Mutant::new(
        "option-with-unknown-name",
        "An option may begin with a name that is not a parameter",
        ROOTS,
        "if «!is_known» {",
        "false && !is_known",
        ADVICE,
    ),
    Mutant::new(
        "own-lease-refused",
        "A body that binds `lease` by itself is refused",
        LEASE,
        "«first.is_used».then_some(first.name)",
        "(first.is_used || true)",
        ADVICE,
    ),
    Mutant::new(
        "rebound-lease-refused",
        "A task that uses another value with the name of the lease is refused",
        LEASE,
        "if «!all.iter().all(|mention| mention.is_used)» {",
        "false && !all.iter().all(|mention| mention.is_used)",
        ADVICE,
    ),
    Mutant::new(
        "order-is-not-named-first",
        "The advice below `#[tokio::main]` begins with the end of a protection",
        BLOCKING,
        "let fault = if «target.names.contains_key(target::ASYNC)» {",
        "false && target.names.contains_key(target::ASYNC)",
        ADVICE,
    ),
    Mutant::new(
        "rewritten-body-is-no-async-fn",
        "A method of `#[async_trait]` is asked to be an `async fn`",
        TARGET,
        "if «lifetimes.any(|param| param.lifetime.ident == \"async_trait\")» {",
        "false && lifetimes.any(|_| true)",
        ADVICE,
    ),
];
