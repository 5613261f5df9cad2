//! The book as a reader sees it: built by mdBook, with links that lead somewhere.

use std::process::Command;

use crate::{cargo, links, tools};

/// Builds the book into `target/book`. Returns the reason if mdBook cannot be had.
pub(crate) fn check() -> Result<Option<String>, String> {
    let program = match tools::program(&tools::MDBOOK) {
        Ok(program) => program,
        Err(reason) => return Ok(Some(reason)),
    };
    let output = Command::new(&program)
        .args(["build", "docs/book", "--dest-dir"])
        .arg(cargo::target().join("book"))
        .current_dir(cargo::root())
        .output()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    // A page that is missing in the list of contents, or a file of it that does not exist, is a warning.
    if !output.status.success() || said.contains("WARN") {
        return Err(format!("mdbook build: {}\n{said}", output.status));
    }
    links::check(&cargo::target(), &["book"])?;
    println!("{}", cargo::target().join("book/index.html").display());
    Ok(None)
}
