//! What is known about a tool: what names one's own, where else it comes from, and how it is seen that it will do.

use std::io;
use std::path::Path;

/// Something that the tests or the checks need. Lists have a space between their words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(super) name: &'static str,
    /// Names one's own in its place.
    pub(super) variable: &'static str,
    /// The variable names the directory of the file.
    pub(super) names_folder: bool,
    /// Another variable, which names a file. One's own is used only if both are set.
    pub(super) beside: &'static str,
    /// Its names in the `PATH`. One that is there is used, unless `target/tools` has it.
    pub(super) in_path: &'static str,
    pub(super) source: Source,
    pub(super) packages: &'static str,
    /// That of the package of pip; or the release of Debian that has the package, whichever this machine has.
    pub(super) version: &'static str,
    /// Its place in the unpacked packages, or the name of the module.
    pub(super) file: &'static str,
    /// The choice among several packages of pip, if it is not that of this Python.
    pub(super) built_for: &'static str,
    /// Chooses among the other packages that an installation would bring.
    pub(super) needs: fn(&str) -> bool,
    /// Arranges the unpacked files.
    pub(super) arrange: fn(&Path) -> io::Result<()>,
    pub(super) otherwise: Otherwise,
    /// Asks it for its version. If empty, it is no program.
    pub(super) asks: &'static str,
    /// The beginning of its answer.
    pub(super) answers: &'static str,
    /// A version that cannot be read will do, too: the tests show whether it does.
    pub(super) oldest: (u32, u32),
    /// Sees that it can do what the tests want of it.
    pub(super) works: fn(&Path) -> Result<(), String>,
    pub(super) by_hand: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A package of this system, installed.
    System,
    /// Packages of Debian, with those of their libraries that this machine lacks.
    Debian,
    /// A program in a package for Python, which is all of it that is kept, under the name of the tool.
    Pip,
    /// A package for Python to import, with all that it needs itself.
    Module,
}

/// The one that is used if none can be got.
#[derive(Clone, Copy, Debug)]
pub(super) enum Otherwise {
    Nothing,
    /// That of this name in the `PATH`.
    InPath(&'static str),
    /// Python, if it finds the module without the package.
    Python,
    /// Another tool, by a link in its place.
    Tool(&'static Tool),
    /// What this system has, to which the function puts links.
    Links(fn(&Path) -> io::Result<()>),
}

pub(super) const TOOL: Tool = Tool {
    name: "",
    variable: "",
    names_folder: false,
    beside: "",
    in_path: "",
    source: Source::Debian,
    packages: "",
    version: "",
    file: "",
    built_for: "",
    needs: |_| false,
    arrange: |_| Ok(()),
    otherwise: Otherwise::Nothing,
    asks: "--version",
    answers: "",
    oldest: (0, 0),
    works: |_| Ok(()),
    by_hand: "",
};

impl Tool {
    /// A program of this name, in the folder `bin` of a package of pip in its version.
    pub(crate) const fn of_pip(
        name: &'static str,
        variable: &'static str,
        (packages, version): (&'static str, &'static str),
        by_hand: &'static str,
    ) -> Self {
        Self {
            name,
            variable,
            source: Source::Pip,
            packages,
            version,
            otherwise: Otherwise::InPath(name),
            by_hand,
            ..TOOL
        }
    }
}
