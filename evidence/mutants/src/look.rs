//! The ways to look for a mistake: tests, or the simulation.

/// Something that passes on the right code, and should not on the wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// So many runs of the simulation.
    Simulation { seeds: u64 },
    /// A test by its whole name.
    Test(Target, &'static str),
    /// All tests of a target whose names contain one of these texts; all of it without any.
    Tests(Target, &'static [&'static str]),
}

/// A target whose tests are built, in cargo's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) package: &'static str,
    /// The name of an integration test; of the others nothing.
    pub(super) test: Option<&'static str>,
}

/// The unit tests of the runtime.
pub(super) const RUNTIME: Target = Target {
    package: "dlock-runtime",
    test: None,
};

/// The unit tests of the operators' parts.
pub(super) const ADMIN: Target = Target {
    package: "dlock-admin",
    test: None,
};

/// The unit tests of the page, without a browser.
pub(super) const WEB: Target = Target {
    package: "dlock-admin-web",
    test: None,
};

/// The unit tests of the attribute.
pub(super) const MACROS: Target = Target {
    package: "dlock-macros",
    test: None,
};

/// The unit tests of the command.
pub(super) const COMMAND: Target = Target {
    package: "dlock-cli",
    test: None,
};

/// The command as it is typed.
pub(super) const TYPED: Target = Target {
    package: "dlock-cli",
    test: Some("cli"),
};

/// The page of `dlock serve` in a browser.
pub(super) const PAGE: Target = Target {
    package: "dlock-cli",
    test: Some("browser"),
};

/// Real forks, and a process without a thread left.
pub(super) const FORKS: Target = Target {
    package: "dlock-forks",
    test: Some("run"),
};

/// The tests that need no server.
pub(super) const IN_PROCESS: Target = Target {
    package: "dlock-in-process",
    test: Some("in_process"),
};

/// The contract of stores with the makes and layouts of servers that are not the usual ones.
pub(super) const MAKES: Target = Target {
    package: "dlock-makes",
    test: Some("makes"),
};

/// Everything that awaits, dropped at every await.
pub(super) const CANCELLATION: Target = Target {
    package: "dlock-cancellation",
    test: Some("cancellation"),
};

/// The shapes of functions that the attribute must take.
pub(super) const MACRO_SHAPES: Target = Target {
    package: "dlock-macro-shapes",
    test: Some("macro_shapes"),
};

/// Another executable of `tests/`.
pub(super) const fn facade(test: &'static str) -> Target {
    Target {
        package: "dlock-tests",
        test: Some(test),
    }
}

impl Target {
    /// Its name among those of its package.
    pub(super) fn name(self) -> String {
        match self.test {
            Some(test) => format!("`{test}` of {}", self.package),
            None => format!("the unit tests of {}", self.package),
        }
    }
}

impl Look {
    pub(super) fn target(&self) -> Option<Target> {
        match self {
            Self::Simulation { .. } => None,
            Self::Test(target, _) | Self::Tests(target, _) => Some(*target),
        }
    }
}
