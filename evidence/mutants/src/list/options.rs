//! Mistakes in the attribute's options, and in what they make of a call.

use super::super::look::Look::{self, Tests};
use super::super::look::{IN_PROCESS, MACRO_SHAPES, MACROS, RUNTIME, facade};
use super::super::mutant::Mutant;

const CHECK: &str = "dlock-macros/src/check.rs";
const VALUES: &str = "dlock-macros/src/values.rs";
const SETTINGS: &str = "dlock-macros/src/expand/settings.rs";
const ELSEWHERE: &str = "dlock-macros/src/elsewhere.rs";
const MODES: &str = "dlock-macros/src/modes.rs";
const EXPAND: &str = "dlock-macros/src/expand.rs";
const KEY: &str = "dlock-macros/src/key.rs";
const REGISTRY: &str = "dlock-runtime/src/api/registry.rs";
const OPTIONAL: &str = "dlock-runtime/src/api/optional.rs";
const DETACH: &str = "dlock-runtime/src/api/detach.rs";
const SITE: &str = "dlock-runtime/src/site.rs";

const ATTRIBUTE: &[Look] = &[Tests(MACROS, &["attribute::", "elsewhere::"])];

const SHAPES: &[Look] = &[
    Tests(MACRO_SHAPES, &["enabled::"]),
    Tests(IN_PROCESS, &["detach::"]),
];

const COUNTED: &[Look] = &[Tests(facade("servers"), &["metrics::calls::"])];

pub(super) const ALL: &[Mutant] = &[
    // `on_busy = skip`.
    Mutant::new(
        "skip-waits",
        "A job that is to be skipped waits for as long as the manager says",
        CHECK,
        "if «matches!(plan.on_busy, Some(Busy::Skip(_)))» && !args.mentions",
        "false",
        ATTRIBUTE,
    ),
    // `enabled`.
    Mutant::new(
        "disabled-unlisted",
        "The list of locks does not say that a lock may be left out",
        SETTINGS,
        "let enabled = «plan.enabled.as_ref().map(|_| \"enabled\")»;",
        "None",
        ATTRIBUTE,
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
        "disabled-not-detached",
        "A body without a lock ends with its caller",
        DETACH,
        "if let Some(runtime) = «&self.runtime» {",
        "if self.acquisition.is_some() { &self.runtime } else { &None }",
        SHAPES,
    ),
    // `mode`, `permits` and `shared(..)`.
    Mutant::new(
        "permits-zero",
        "A lock may have no permit",
        MODES,
        "«number.base10_digits() == \"0\"»",
        "{ let _ = number; false }",
        ATTRIBUTE,
    ),
    Mutant::new(
        "permits-generic-in-static",
        "A number of permits that is a generic parameter stands in the static",
        MODES,
        "Some(Constant::Free) if «!may_be_generic(value, target)» =>",
        "{ let _ = may_be_generic(value, target); true }",
        ATTRIBUTE,
    ),
    Mutant::new(
        "shared-key-unlisted",
        "The list of locks does not say which keys are shared",
        EXPAND,
        "let has_shared = «plan.keys.iter().any(|key| key.shared)»;",
        "false",
        ATTRIBUTE,
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
        "permits-differ",
        "Functions with another number of permits agree",
        REGISTRY,
        "LockMode::Permits(most)) => «Some(most)»,",
        "{ let _ = most; None }",
        &[Tests(RUNTIME, &["registry::"])],
    ),
    // `metric`, and the names of other libraries.
    Mutant::new(
        "metric-ignored",
        "Metrics show the key's template although the function has a word of its own",
        SITE,
        "template: Some(«site.metric»),",
        "site.template",
        COUNTED,
    ),
    Mutant::new(
        "metric-of-any-letters",
        "A word for metrics may have letters that exporters replace",
        VALUES,
        "find(|(_, c)| «!is_plain(*c)»)",
        "{ let _ = is_plain(*c); false }",
        ATTRIBUTE,
    ),
    Mutant::new(
        "elsewhere-in-one-spelling",
        "Names of other libraries are known in one spelling only",
        ELSEWHERE,
        "let name = «name.replace('_', \"\").to_lowercase()»;",
        "name.to_lowercase()",
        ATTRIBUTE,
    ),
];
