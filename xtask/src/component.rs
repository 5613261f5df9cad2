//! Sees to it that the toolchain has what a step needs, by way of rustup where that is there.

use crate::{cargo, machine};

/// A part of the toolchain that minimal installations lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    /// As rustup knows it.
    pub(crate) name: &'static str,
    /// The command that it brings.
    pub(crate) command: &'static [&'static str],
}

impl Component {
    /// Finds or installs it, or says why it is missing.
    pub(crate) fn provide(self) -> Result<(), String> {
        if self.is_there() {
            return Ok(());
        }
        if let Some(obstacle) = obstacle(
            machine::find("rustup").is_some(),
            machine::nothing_may_be_installed(),
        ) {
            return Err(self.refusal(obstacle));
        }
        // Into the toolchain that runs this: rustup tells it to every program that it starts.
        if machine::run(&["rustup", "component", "add", self.name]) && self.is_there() {
            return Ok(());
        }
        Err(self.refusal("could not be installed"))
    }

    fn is_there(self) -> bool {
        match self.command {
            ["cargo", subcommand] => cargo::has(subcommand),
            [program] => machine::succeeds(program, &["--version"]),
            _ => false,
        }
    }

    fn refusal(self, obstacle: &str) -> String {
        let (name, command) = (self.name, self.command.join(" "));
        format!(
            "`{command}` {obstacle}: run `rustup component add {name}`, or install it where your Rust came from"
        )
    }
}

/// The obstacle to installing a component.
fn obstacle(rustup: bool, forbidden: bool) -> Option<&'static str> {
    match (rustup, forbidden) {
        (_, true) => Some("is missing, and DLOCK_NO_INSTALL is set"),
        (false, false) => Some("is missing, and there is no rustup to install it"),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_installed_only_by_rustup_and_where_that_is_allowed() {
        assert_eq!(obstacle(true, false), None);
        for (rustup, forbidden) in [(true, true), (false, true), (false, false)] {
            assert!(obstacle(rustup, forbidden).is_some());
        }
    }

    #[test]
    fn a_refusal_says_what_to_install() {
        let clippy = Component {
            name: "clippy",
            command: &["cargo", "clippy"],
        };
        let said = clippy.refusal("is missing");
        assert!(said.contains("`rustup component add clippy`"), "{said}");
    }
}
