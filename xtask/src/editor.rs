//! An editor's view of a key: from a name in it to the parameter, and back.
//!
//! rust-analyzer is asked, as an editor would ask it, about a small crate. It learns of the names
//! through a literal that relies on what compilers and editors happen to do, so a new release of
//! either may end it; this says so.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cargo;

mod session;

use session::Session;

const SOURCE: &str = include_str!("../editor/shop.rs");

const MISSPELT: &str = include_str!("../editor/misspelt.rs");

/// The parameter of every function in the source.
const NAME: &str = "wanted";

/// Asks about every place where a parameter is named, and compares with where it is.
pub(crate) fn check() -> Result<(), String> {
    let root = write_crate().map_err(|error| format!("the crate cannot be written: {error}"))?;
    let mut editor = Session::open(&root, SOURCE)?;
    let functions = functions(SOURCE);
    let mut asked = 0;
    for places in &functions {
        for place in places {
            let is_named = |found: &[Place]| found == places.as_slice();
            let found = editor.references(*place)?;
            expect("references", *place, places, &found, is_named(&found))?;
            let found = editor.rename(*place)?;
            expect("rename", *place, places, &found, is_named(&found))?;
            let found = editor.definition(*place)?;
            let parameter = places.iter().find(|place| is_in_signature(SOURCE, **place));
            let is_parameter = parameter.is_some_and(|place| found == [*place]);
            expect("definition", *place, places, &found, is_parameter)?;
            asked += 1;
        }
    }
    println!(
        "{} functions, {asked} places of their parameters: definition, references and rename are right at each",
        functions.len()
    );
    check_compiler(&root)
}

/// A misspelt name is underlined by the compiler, and drawn where that is switched off.
fn check_compiler(root: &Path) -> Result<(), String> {
    for (whole, wanted) in [
        (
            None,
            ["error[E0425]: cannot find value `wnted`", ":<wanted>\""],
        ),
        (
            Some(("DLOCK_WHOLE_SPANS", "1")),
            ["error: no parameter named `wnted` in `pay`", "^^^^^\n"],
        ),
    ] {
        let said = cargo::errors_in(
            root,
            "check --quiet --example misspelt --color never",
            whole,
        )?;
        if let Some(missing) = wanted.iter().find(|text| !said.contains(**text)) {
            return Err(format!("with {whole:?} `{missing}` is not in\n{said}"));
        }
    }
    println!("a misspelt name is underlined, or drawn with DLOCK_WHOLE_SPANS");
    Ok(())
}

/// A line and a character of it, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    line: u32,
    character: u32,
}

impl Place {
    fn to_json(self) -> Value {
        json!({ "line": self.line, "character": self.character })
    }

    /// The start of a range of the protocol.
    fn from_range(range: &Value) -> Option<Self> {
        let number = |name| u32::try_from(range["start"][name].as_u64()?).ok();
        Some(Self {
            line: number("line")?,
            character: number("character")?,
        })
    }
}

fn expect(
    what: &str,
    at: Place,
    wanted: &[Place],
    found: &[Place],
    is_right: bool,
) -> Result<(), String> {
    if is_right {
        return Ok(());
    }
    Err(format!(
        "{what} at {at:?} gives {found:?}; the parameter is at {wanted:?}"
    ))
}

/// For each function, the places of its parameter.
fn functions(source: &str) -> Vec<Vec<Place>> {
    let mut functions: Vec<Vec<Place>> = Vec::new();
    for (line, text) in (0..).zip(source.lines()) {
        if text.trim_start().starts_with("#[") {
            functions.push(Vec::new());
        }
        if let Some(function) = functions.last_mut() {
            function.extend(text.match_indices(NAME).map(|(at, _)| Place {
                line,
                // The protocol counts as UTF-16 does.
                character:
                    u32::try_from(text[..at].encode_utf16().count()).expect("lines are short"),
            }));
        }
    }
    functions
}

fn is_in_signature(source: &str, place: Place) -> bool {
    let line = source.lines().nth(place.line as usize);
    line.is_some_and(|line| line.contains("fn "))
}

/// The crate that the editor opens, with the versions that this workspace is locked to.
fn write_crate() -> std::io::Result<PathBuf> {
    let workspace = cargo::root();
    let root = cargo::target().join("editor");
    let manifest = format!(
        "[package]\nname = \"shop\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ndlock-rs = {{ path = \"{}\", default-features = false }}\n\n\
         [workspace]\n",
        workspace.display()
    );
    for folder in ["src", "examples"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join("Cargo.toml"), manifest)?;
    fs::write(root.join("src/lib.rs"), SOURCE)?;
    fs::write(root.join("examples/misspelt.rs"), MISSPELT)?;
    fs::copy(workspace.join("Cargo.lock"), root.join("Cargo.lock"))?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_names_its_parameter_before_and_after_it_is_declared() {
        let functions = functions(SOURCE);
        assert!(functions.len() >= 7);
        for places in functions {
            let declared = places
                .iter()
                .position(|place| is_in_signature(SOURCE, *place));
            let declared = declared.expect("a parameter");
            assert!(declared > 0 && declared + 1 < places.len(), "{places:?}");
        }
    }
}
