//! Sees to it that the tests find Chromium, which shows them the page of `dlock serve`.
//!
//! It is the one without a window, from Debian's packages, unpacked into `target/tools/chromium` with its font and those of its
//! libraries that this machine lacks: 96 MB to download, and a few more on a machine without a desktop. Nothing is installed.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::machine::{self, find, output};
use crate::{cargo, debian};

/// The first version with all that the page uses.
const OLDEST: u32 = 120;

const PACKAGE: &str = "chromium-headless-shell";
/// A page without a font has no letters, and so no sizes to test.
const FONT: &str = "fonts-dejavu-core";
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";

/// Another number has what was unpacked before unpacked again.
const LAYOUT: &str = "2";

/// The settings of fontconfig, whose packages are only complete when they are installed. Every machine shows the same letters.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias binding="same"><family>sans</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

const INSTALLED: [&str; 5] = [
    PACKAGE,
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

const BY_HAND: &str = "\
install Chromium 120 or later and run this again, or name it:
    DLOCK_CHROMIUM=/path/to/chromium";

/// Finds or gets it, or says what is missing.
pub(crate) fn provide() -> Result<(), String> {
    let folder = cargo::target().join("tools").join("chromium");
    if let Some(named) = machine::variable("DLOCK_CHROMIUM") {
        return report(Path::new(&named), "");
    }
    if !is_complete(&folder) {
        if let Some(found) = INSTALLED.iter().find_map(|name| find(name)) {
            return report(&found, "");
        }
        println!("no Chromium found: unpacking it");
        debian::unpack(&folder, wanted, || write_notes(&folder))
            .map_err(|reason| format!("no Chromium found: {reason}; {BY_HAND}"))?;
    }
    let libraries = fs::read_to_string(folder.join("libraries")).unwrap_or_default();
    let libraries: Vec<_> = libraries.lines().map(|it| folder.join(it)).collect();
    let libraries = env::join_paths(libraries).map_err(|error| error.to_string())?;
    report(&folder.join(PROGRAM), &libraries.to_string_lossy())
}

/// The note of the layout is written last.
fn is_complete(folder: &Path) -> bool {
    let note = fs::read_to_string(folder.join("layout")).unwrap_or_default();
    note == LAYOUT && folder.join(PROGRAM).is_file()
}

/// The packages to unpack: the browser, its font, and those of its libraries that are not installed.
fn wanted() -> Result<Vec<String>, String> {
    let depends = output("apt-cache", &["depends", PACKAGE]).unwrap_or_default();
    if depends.trim().is_empty() {
        return Err(format!("the lists of packages have no {PACKAGE}"));
    }
    let mut all = debian::would_install(&[PACKAGE, FONT]);
    if all.is_empty() {
        return Err(format!("{PACKAGE} cannot be installed with this system"));
    }
    all.retain(|package| is_part(package));
    Ok(all)
}

/// `true` for a package that the browser loads files of.
fn is_part(package: &str) -> bool {
    ["lib", "chromium", "fonts-"]
        .iter()
        .any(|begin| package.starts_with(begin))
}

/// Notes the directories of libraries, as they lie in the folder: it may be moved with `target`.
fn write_notes(folder: &Path) -> Result<(), String> {
    let libraries = with_parts(&debian::library_path(folder)?);
    let here = libraries
        .iter()
        .filter_map(|it| it.strip_prefix(folder).ok());
    let lines: Vec<_> = here.map(|it| it.display().to_string()).collect();
    fs::write(folder.join("libraries"), lines.join("\n"))
        .and_then(|()| fs::write(folder.join("fonts.conf"), FONTS))
        .and_then(|()| fs::write(folder.join("layout"), LAYOUT))
        .map_err(|error| format!("`{}` cannot be written: {error}", folder.display()))
}

/// The same directories and those in them: a library of sound loads a second one from below its own place.
fn with_parts(directories: &str) -> Vec<PathBuf> {
    let all = env::split_paths(directories).flat_map(|directory| {
        let below = debian::files_in(&directory);
        let below: Vec<_> = below.into_iter().filter(|it| it.is_dir()).collect();
        [directory].into_iter().chain(below)
    });
    all.collect()
}

/// Shows the version of a browser, or refuses it.
fn report(browser: &Path, libraries: &str) -> Result<(), String> {
    let shown = browser.display();
    if !browser.is_file() {
        return Err(format!("`{shown}` is not there; {BY_HAND}"));
    }
    let libraries = format!("LD_LIBRARY_PATH={libraries}");
    let program = browser.display().to_string();
    // A few of them look for a display before they say so.
    let said = output("env", &[&*libraries, &*program, "--headless", "--version"]);
    let said = said.ok_or_else(|| format!("`{shown}` does not run; {BY_HAND}"))?;
    match version(&said) {
        Some(version) if version < OLDEST => Err(format!(
            "`{shown}` is {}, and the tests need version {OLDEST} or later; {BY_HAND}",
            said.trim()
        )),
        _ => {
            println!("chromium: {shown}: {}", said.trim());
            Ok(())
        }
    }
}

/// The first number in `Chromium 156.0.8078.108 built on Debian`.
fn version(said: &str) -> Option<u32> {
    let mut words = said.split_whitespace();
    words.find_map(|word| word.split_once('.')?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read() {
        let said = "Chromium 156.0.8078.108 built on Debian GNU/Linux 12 (bookworm)\n";
        assert_eq!(version(said), Some(156));
        assert_eq!(version("Google Chrome 119.0.6045.105 "), Some(119));
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn only_files_that_the_browser_loads_are_unpacked() {
        let said = [
            "xdg-utils",
            "chromium-common",
            "libogg0",
            "fonts-dejavu-core",
        ];
        let parts: Vec<_> = said.into_iter().filter(|it| is_part(it)).collect();
        assert_eq!(parts, ["chromium-common", "libogg0", "fonts-dejavu-core"]);
    }
}
