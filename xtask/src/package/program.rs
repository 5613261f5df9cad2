//! A package with the first program of the README, which depends on the unpacked archives.

use std::path::Path;
use std::{fs, io};

use crate::cargo;

use super::Package;

/// The name of the package and of its program.
pub(super) const NAME: &str = "readme";

/// Writes the package into `folder`, beside the folder `unpacked`.
pub(super) fn write(
    folder: &Path,
    readme: &str,
    url: &str,
    packages: &[Package],
) -> Result<(), String> {
    let source = source(readme, url)?;
    let patches = patches(packages, "../unpacked");
    let version = |name: &str| {
        let package = packages.iter().find(|package| package.name == name);
        package.map_or_else(String::new, |it| it.version.clone())
    };
    let manifest = format!(
        "[package]\nname = \"{NAME}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ndlock-rs = \"{}\"\n{}\n\n\
         [workspace]\n\n[patch.crates-io]\n{patches}\n",
        version("dlock-rs"),
        tokio(readme)
    );
    let save = || -> io::Result<()> {
        fs::create_dir_all(folder.join("src"))?;
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), source)?;
        // With the versions that dlock is tested with.
        fs::copy(cargo::root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(())
    };
    save().map_err(|error| format!("{}: {error}", folder.display()))
}

/// The lines of `[patch.crates-io]` for the archives that are unpacked into `folder`.
pub(super) fn patches(packages: &[Package], folder: &str) -> String {
    let line = |it: &Package| format!("{} = {{ path = '{folder}/{}' }}", it.name, it.folder());
    let lines: Vec<String> = packages.iter().map(line).collect();
    lines.join("\n")
}

/// The first Rust block of the README, with the address of the server in place of its own.
fn source(readme: &str, url: &str) -> Result<String, String> {
    let mut lines = readme.lines();
    let begins = |line: &str| line.starts_with("```rust");
    lines
        .find(|line| begins(line))
        .ok_or("README.md has no block of Rust")?;
    let block = lines.take_while(|line| !line.starts_with("```"));
    // rustdoc does not show lines that begin so.
    let shown = block.map(|line| line.strip_prefix("# ").unwrap_or(line));
    let source: Vec<&str> = shown.collect();
    let source = source.join("\n") + "\n";
    if !source.contains("fn main()") {
        return Err("the first block of Rust in README.md is not a whole program".to_owned());
    }
    Ok(with_url(&source, url))
}

/// Replaces each literal that begins with `redis://`.
fn with_url(source: &str, url: &str) -> String {
    let mut parts = source.split("\"redis://");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('"').map_or("", |(_, rest)| rest);
        text = text + "\"" + url + "\"" + rest;
    }
    text
}

/// The line that the README tells to add for tokio; all of its features if there is none.
fn tokio(readme: &str) -> &str {
    const ALL: &str = "tokio = { version = \"1\", features = [\"full\"] }";
    let mut lines = readme.lines();
    lines
        .find(|line| line.starts_with("tokio = "))
        .unwrap_or(ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# x\n```rust,no_run\n# use a::b;\n\
                          #[tokio::main]\nasync fn main() {\n    connect(\"redis://10.0.0.1:1/2\").await;\n}\n```\n\
                          ```rust\nfn other() {}\n```\n";

    #[test]
    fn the_first_program_is_taken_with_another_address() {
        let source = source(README, "redis://127.0.0.1:7").expect("it has one");
        assert_eq!(
            source,
            "use a::b;\n#[tokio::main]\nasync fn main() {\n    connect(\"redis://127.0.0.1:7\").await;\n}\n"
        );
        assert!(super::source("```rust\nfn other() {}\n```\n", "").is_err());
        assert!(super::source("no block", "").is_err());
    }

    #[test]
    fn tokio_is_added_as_the_readme_says() {
        let readme = "```toml\n[dependencies]\ntokio = \"1.2\"\n```\n";
        assert_eq!(tokio(readme), "tokio = \"1.2\"");
        assert!(tokio("no line").contains("full"));
    }

    #[test]
    fn the_readme_begins_with_a_whole_program() {
        let readme = fs::read_to_string(cargo::root().join("README.md")).expect("it is there");
        let source = source(&readme, "redis://here").expect("it has a program");
        assert!(source.contains("#[tokio::main]"), "{source}");
    }
}
