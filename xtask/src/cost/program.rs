//! The programs that are measured: the same functions with the attribute, with the explicit API,
//! and without a lock. Their sources are in `xtask/cost`.

use std::fs;
use std::path::Path;

use crate::files;

/// The number of locked functions of a program.
pub(super) const FUNCTIONS: usize = 200;

/// The number of functions of each file that has some.
const COPIES: usize = 25;

/// The way in which the functions of a program get their locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Attribute,
    ByHand,
    Unlocked,
}

impl Program {
    pub(super) const ALL: [Self; 3] = [Self::Attribute, Self::ByHand, Self::Unlocked];

    /// The name of the package and of its binary.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::ByHand => "by-hand",
            Self::Unlocked => "unlocked",
        }
    }

    /// A file of this program. A paragraph with `$N` is there many times, with the number in its place. Lines behind `//+`
    /// are those by hand.
    fn source(self, text: &str) -> String {
        let lines = text.lines().filter_map(|line| match line.trim_start() {
            it if it.starts_with("#[distributed_lock") => (self == Self::Attribute).then_some(line),
            it if it.starts_with("//+") => (self == Self::ByHand).then_some(&it[3..]),
            _ => Some(line),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let copies = |paragraph: &str| {
            let is_one = !paragraph.contains("$N");
            let copy = |copy: usize| paragraph.replace("$N", &copy.to_string());
            (0..if is_one { 1 } else { COPIES })
                .map(copy)
                .collect::<Vec<_>>()
        };
        text.split("\n\n")
            .flat_map(copies)
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

/// Writes a workspace of all programs into `folder`; `root` is where dlock is.
pub(super) fn write(folder: &Path, root: &Path) -> Result<(), String> {
    let names = Program::ALL.map(|program| format!("{:?}", program.name()));
    let workspace = format!(
        "[workspace]\nmembers = [{}]\nresolver = \"3\"\n",
        names.join(", ")
    );
    save(&folder.join("Cargo.toml"), &workspace)?;
    // With the versions that dlock is tested with, and no need to ask a registry for others.
    save(
        &folder.join("Cargo.lock"),
        &files::read(&root.join("Cargo.lock"))?,
    )?;
    for program in Program::ALL {
        let package = folder.join(program.name());
        save(&package.join("Cargo.toml"), &manifest(program, root))?;
        for path in files::below(&root.join("xtask/cost"), "rs")? {
            let name = path.file_name().unwrap_or_default();
            save(
                &package.join("src").join(name),
                &program.source(&files::read(&path)?),
            )?;
        }
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn manifest(program: Program, root: &Path) -> String {
    format!(
        "[package]\nname = {:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ndlock-rs = {{ path = '{}' }}\n\
         tokio = {{ version = \"1\", features = [\"rt\", \"macros\", \"sync\", \"time\"] }}\n",
        program.name(),
        root.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_differ_in_the_lock_only() {
        let text = "use x;\n\n#[distributed_lock(key = \"k\")]\nfn f_$N() {\n    //+ let guard;\n    $N;\n}\n\nend\n";
        let [attribute, by_hand, unlocked] = Program::ALL.map(|program| program.source(text));
        let second = "\n\n#[distributed_lock(key = \"k\")]\nfn f_1() {\n    1;\n}\n\n";
        assert!(attribute.contains(second), "{attribute}");
        assert!(
            unlocked.contains("\n\nfn f_24() {\n    24;\n}\n\nend"),
            "{unlocked}"
        );
        assert!(
            by_hand.contains("\n\nfn f_1() {\n let guard;\n    1;\n}\n\n"),
            "{by_hand}"
        );
    }

    #[test]
    fn there_are_as_many_functions_as_are_reported() {
        let folder = crate::cargo::root().join("xtask/cost");
        let files = files::below(&folder, "rs").expect("they are there");
        let functions = files.iter().map(|path| {
            let text = files::read(path).expect("it is there");
            let whole = Program::Attribute.source(&text);
            let locks = whole.matches("#[distributed_lock").count();
            let by_hand = Program::ByHand.source(&text);
            assert_eq!(by_hand.matches(".acquire()").count(), locks);
            assert_eq!(whole.matches("Box::pin(").count(), locks);
            locks
        });
        assert_eq!(functions.sum::<usize>(), FUNCTIONS);
    }
}
