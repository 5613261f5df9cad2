//! The public API of the published crates, as files in `docs/api/`, so that a change of it is seen in a
//! review.
//!
//! rustdoc describes a crate as JSON only for nightly toolchains; a stable one does it with `RUSTC_BOOTSTRAP`.
//! Build scripts of dependencies look at that variable and would run anew, so only rustdoc sees it: cargo
//! starts this program in place of rustdoc. The packages are those of the step `doc`, and so are the
//! dependencies that are compiled for them.

mod rustdoc;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use public_api::{Builder, PublicApi};
use serde::Deserialize;

use crate::cargo::{self, Call};
use crate::steps::Step;
use crate::{files, package};

pub(crate) use rustdoc::stand_in;

/// The version of rustdoc's JSON that this version of `public-api` reads.
const FORMAT: u32 = 57;

// Flags of its own: `cargo doc` is not told that its work has been done.
const DOCUMENT: Call = Step::documentation().with(Some(("RUSTDOCFLAGS", "--cfg=dlock_api")));

/// A published crate with an interface.
struct Library(&'static str);

fn libraries() -> impl Iterator<Item = Library> {
    let packages = package::published().into_iter();
    packages.filter(|it| *it != "dlock-cli").map(Library)
}

impl Library {
    fn name(&self) -> String {
        match self.0 {
            "dlock-rs" => "dlock".to_owned(),
            package => package.replace('-', "_"),
        }
    }

    /// What rustdoc writes.
    fn json(&self) -> PathBuf {
        folder().join(format!("doc/{}.json", self.name()))
    }

    /// What is reviewed.
    fn text(&self) -> PathBuf {
        cargo::root().join(format!("docs/api/{}.txt", self.0))
    }
}

/// Compares the files with the code, by way of `run`, which runs cargo; the reason if nothing could be
/// compared.
pub(crate) fn check(run: impl FnOnce(&Call, &Variables) -> bool) -> Result<Option<String>, String> {
    let described = match described(run)? {
        Ok(described) => described,
        Err(reason) => return Ok(Some(reason)),
    };
    let mut said = Vec::new();
    for (library, lines) in described {
        let file = library.text();
        let written = fs::read_to_string(&file).unwrap_or_default();
        let changes = changes(&written, &lines);
        if !changes.is_empty() {
            said.push(format!("{}:\n{changes}", file.display()));
        }
    }
    if said.is_empty() {
        return Ok(None);
    }
    let said = said.join("\n");
    Err(format!(
        "the public API has changed.\n\n{said}\nIf that is meant, `cargo xtask api --write` writes the \
         files again; commit them, and add a line to the changelog."
    ))
}

/// Writes the files again.
pub(crate) fn write() -> Result<(), String> {
    let described =
        described(Call::run_under)?.map_err(|reason| format!("nothing is written: {reason}"))?;
    for (library, lines) in described {
        let file = library.text();
        let folder = file.parent().expect("it lies in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, lines.join("\n") + "\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{}: {} lines", file.display(), lines.len());
    }
    Ok(())
}

type Variables = [(String, OsString)];

type Described = Vec<(Library, Vec<String>)>;

/// The API of each library; within, why it cannot be known with this toolchain.
fn described(
    run: impl FnOnce(&Call, &Variables) -> bool,
) -> Result<Result<Described, String>, String> {
    let this = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let packages: Vec<_> = libraries().map(|it| it.0).collect();
    let variables = [
        ("RUSTDOC".to_owned(), this.into_os_string()),
        (rustdoc::PACKAGES.to_owned(), packages.join(" ").into()),
        // What was compiled for others is used, and the pages that others have written stay.
        ("CARGO_TARGET_DIR".to_owned(), folder().into_os_string()),
        (
            "CARGO_BUILD_BUILD_DIR".to_owned(),
            cargo::target().into_os_string(),
        ),
    ];
    if !run(&DOCUMENT, &variables) {
        return Err("rustdoc failed: `cargo xtask test doc` shows the same mistakes".to_owned());
    }
    let mut described = Vec::new();
    for library in libraries() {
        let path = library.json();
        let json =
            files::read(&path).map_err(|error| format!("{error}, and rustdoc was to write it"))?;
        if let Some(reason) = foreign_format(&json) {
            return Ok(Err(reason));
        }
        match lines(&path) {
            Ok(lines) => described.push((library, lines)),
            // Of the format by its number, and of another one by what it holds.
            Err(error) => return Ok(Err(format!("{}: {error}", path.display()))),
        }
    }
    Ok(Ok(described))
}

/// The folder for what rustdoc writes.
fn folder() -> PathBuf {
    cargo::target().join("api")
}

/// The reason why this JSON is not read.
fn foreign_format(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        format_version: u32,
    }
    match serde_json::from_str::<Head>(json) {
        Ok(head) if head.format_version == FORMAT => None,
        Ok(head) => Some(format!(
            "rustdoc of this toolchain writes JSON of format {}, and this reads format {FORMAT}",
            head.format_version
        )),
        Err(error) => Some(format!("rustdoc of this toolchain writes no JSON: {error}")),
    }
}

/// The items of a library, one a line.
fn lines(json: &Path) -> public_api::Result<Vec<String>> {
    let builder = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true);
    let all = builder.clone().build()?;
    let by_hand = builder.omit_auto_derived_impls(true).build()?;
    let texts = |api: &PublicApi| api.items().map(ToString::to_string).collect::<Vec<_>>();
    Ok(chosen(texts(&all), &texts(&by_hand).into_iter().collect()))
}

/// Without the methods of derived traits, since that they are derived says all of them, and without
/// what nobody can name: what macros of others leave behind, and traits of private types.
fn chosen(all: Vec<String>, by_hand: &BTreeSet<String>) -> Vec<String> {
    let is_told = |line: &String| {
        const NOISE: [&str; 3] = ["::__private::", "::StructuralPartialEq ", "<super::"];
        let is_noise = NOISE.iter().any(|noise| line.contains(noise));
        !is_noise && (line.starts_with("impl") || by_hand.contains(line))
    };
    all.into_iter().filter(is_told).collect()
}

/// The lines that have gone and those that have come.
fn changes(written: &str, lines: &[String]) -> String {
    let old: BTreeSet<&str> = written.lines().collect();
    let new: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
    let gone = written.lines().filter(|line| !new.contains(line));
    let come = new.iter().filter(|line| !old.contains(*line));
    let gone = gone.map(|line| format!("-{line}\n"));
    gone.chain(come.map(|line| format!("+{line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn what_has_gone_and_what_has_come_is_shown() {
        assert_eq!(changes("a\nb\n", &owned(&["a", "b"])), "");
        assert_eq!(changes("a\nb\nd\n", &owned(&["b", "c"])), "-a\n-d\n+c\n");
        assert_eq!(changes("", &owned(&["a"])), "+a\n", "a new crate");
    }

    #[test]
    fn a_derived_trait_is_one_line() {
        let all = owned(&[
            "pub enum x::Wait",
            "impl core::clone::Clone for x::Wait",
            "pub fn x::Wait::clone(&self) -> x::Wait",
            "impl core::marker::StructuralPartialEq for x::Wait",
            "impl core::marker::Unpin for x::Wait where pin::__private::Fields: core::marker::Unpin",
            "pub fn x::Wait::new() -> x::Wait",
        ]);
        let by_hand = owned(&["pub enum x::Wait", "pub fn x::Wait::new() -> x::Wait"]);
        assert_eq!(
            chosen(all, &by_hand.into_iter().collect()),
            [
                "pub enum x::Wait",
                "impl core::clone::Clone for x::Wait",
                "pub fn x::Wait::new() -> x::Wait"
            ]
        );
    }

    #[test]
    fn json_of_another_format_is_left_out() {
        assert_eq!(
            foreign_format("{\"format_version\": 57, \"root\": 1}"),
            None
        );
        let newer = foreign_format("{\"format_version\": 58}").expect("it is not read");
        assert!(newer.contains("format 58"), "{newer}");
        assert!(foreign_format("").is_some());
    }

    #[test]
    fn every_library_has_its_file() {
        for library in libraries() {
            let file = library.text();
            let text =
                fs::read_to_string(&file).expect("it is written by `cargo xtask api --write`");
            assert!(text.contains(&library.name()), "{}", file.display());
        }
    }
}
