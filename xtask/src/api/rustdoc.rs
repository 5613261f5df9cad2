//! This program in place of rustdoc: JSON for the published libraries, nothing for all other packages.

use std::env;
use std::ffi::OsString;
use std::process::Command;

/// The variable that says that cargo has started this program as rustdoc, and for which packages.
pub(super) const PACKAGES: &str = "DLOCK_API_OF";

/// Runs rustdoc if that is what cargo wants of this program; the outcome, if so.
pub(crate) fn stand_in() -> Option<Result<(), String>> {
    let packages = env::var(PACKAGES).ok()?;
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    if !is_described(&package, &packages) {
        return Some(Ok(()));
    }
    let mut command = Command::new("rustdoc");
    command.args(arguments(env::args_os().skip(1)));
    Some(match command.env("RUSTC_BOOTSTRAP", "1").status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("rustdoc: {status}")),
        Err(error) => Err(format!("rustdoc cannot be run: {error}")),
    })
}

fn is_described(package: &str, packages: &str) -> bool {
    packages.split(' ').any(|it| it == package)
}

/// The arguments of cargo, and those for JSON, which then lies in the folder of the documentation.
fn arguments(of_cargo: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let json = ["-Z", "unstable-options", "--output-format", "json"];
    of_cargo.chain(json.map(OsString::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_published_packages_are_described() {
        assert!(is_described("dlock-rs", "dlock-rs dlock-macros"));
        // The program `dlock` of the one would lie where the library `dlock` of the other does.
        assert!(!is_described("dlock-cli", "dlock-rs dlock-macros"));
        assert!(!is_described("", "dlock-rs dlock-macros"));
    }

    #[test]
    fn what_cargo_wants_is_kept() {
        let words = ["--crate-name", "dlock", "-o", "target/doc"].map(OsString::from);
        let arguments = arguments(words.clone().into_iter());
        assert!(arguments.starts_with(&words));
        assert!(arguments.ends_with(&["--output-format", "json"].map(OsString::from)));
    }
}
