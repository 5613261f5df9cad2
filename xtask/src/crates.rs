//! Sees to it that a command of cargo is there that does not come with Rust, built from its crate.
//!
//! It comes in one version into `target/tools`, where those of Python packages lie too. That takes
//! minutes, so nothing that `cargo xtask test` runs needs one.

use std::path::{Path, PathBuf};

use crate::cargo::{self, Call};
use crate::machine;

/// A crate with a program.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) install: Call,
}

impl Crate {
    /// Finds or builds it, or says what is missing.
    pub(crate) fn provide(&self) -> Result<PathBuf, String> {
        let folder = cargo::target().join("tools");
        let program = folder.join("bin").join(self.name);
        if self.is(&program) {
            return Ok(program);
        }
        let found = machine::find(self.name);
        if machine::nothing_may_be_installed() {
            // Another version may do, and is better than none.
            return found
                .ok_or_else(|| format!("no {} found, and DLOCK_NO_INSTALL is set", self.name));
        }
        if let Some(found) = found.filter(|found| self.is(found)) {
            return Ok(found);
        }
        println!("no {} {} found: building it", self.name, self.version);
        let folder = folder.display().to_string();
        if self.install.run_with(&["--root", &folder]) && self.is(&program) {
            return Ok(program);
        }
        Err(format!("{} {} could not be built", self.name, self.version))
    }

    /// `true` if this is the program, in its version.
    fn is(&self, program: &Path) -> bool {
        let said = machine::output(program, &["--version"]).unwrap_or_default();
        said.split_whitespace().any(|word| word == self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_taken_for_it() {
        let cargo = |version| Crate {
            name: "cargo",
            version,
            install: Call::new("install cargo"),
        };
        let program = PathBuf::from(std::env::var_os("CARGO").expect("cargo runs this"));
        let said = machine::output(&program, &["--version"]).expect("it has a version");
        let version: &'static str = said
            .split(' ')
            .nth(1)
            .expect("it is the second word")
            .to_owned()
            .leak();
        assert!(cargo(version).is(&program));
        assert!(!cargo("0.1").is(&program));
        assert!(!cargo(version).is(Path::new("/no/such/program")));
    }
}
