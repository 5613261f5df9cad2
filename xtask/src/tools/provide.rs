//! Decides for each tool which one is used, and gets those that are missing, side by side: most of the time they wait for other
//! machines.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use super::host::Host;
use super::tool::{Otherwise, Source, Tool};
use super::{debian, files, pip};
use crate::machine::{find, variable};

/// Another number has all that was unpacked before unpacked again.
const LAYOUT: &str = "3";

/// Finds or gets all of them and says which ones are used, or what is missing.
pub(crate) fn provide(tools: &[&'static Tool]) -> Result<(), String> {
    for (tool, (program, said)) in tools.iter().zip(found(tools)?) {
        let line = format!("{}: {}: {said}", tool.name, program.display());
        println!("{}", line.trim_end_matches(": "));
    }
    Ok(())
}

/// Finds or gets a program, and returns its place.
pub(crate) fn program(tool: &'static Tool) -> Result<PathBuf, String> {
    let (program, _) = found(&[tool])?.pop().expect("each tool has a place");
    Ok(program)
}

/// The place of each, and what it says about its version.
fn found(tools: &[&'static Tool]) -> Result<Vec<(PathBuf, String)>, String> {
    let mut host = Host::gather();
    // If one is refused, nothing is got for the others.
    let plans = all(tools.iter().map(|tool| host.plan(tool)))?;
    let missing = tools.iter().zip(&plans).filter(|(_, it)| **it == Plan::Get);
    host.missing = missing
        .filter_map(|(tool, _)| host.to_install(tool))
        .collect();
    let host = &host;
    let got: Vec<_> = thread::scope(|scope| {
        let tools = tools.iter().copied().zip(plans);
        let begin = |(tool, plan)| scope.spawn(move || host.carry_out(tool, plan));
        let running: Vec<_> = tools.map(begin).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|it| it.expect("a failure is a reason")).collect()
    });
    files::remove(&host.cache);
    // A substitute may be among the others.
    all(tools.iter().zip(got).map(|(tool, got)| {
        let program = got.or_else(|reason| host.substitute(tool, &reason))?;
        let said = tool.said_by(&program, &host.libraries(tool, &program)?)?;
        Ok((program, said))
    }))
}

/// All values, or all reasons why there are none.
fn all<T>(results: impl Iterator<Item = Result<T, String>>) -> Result<Vec<T>, String> {
    let (values, reasons): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    let reasons: Vec<_> = reasons.into_iter().filter_map(Result::err).collect();
    if reasons.is_empty() {
        return Ok(values.into_iter().flatten().collect());
    }
    Err(reasons.join("\n"))
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Use(PathBuf),
    Get,
    /// Why it cannot be got.
    Replace(&'static str),
}

/// Decides by the file that the variable names, or what is wrong with it; by what is there; and by the obstacle to getting it.
pub(super) fn decide(
    named: Option<Result<PathBuf, String>>,
    there: impl FnOnce() -> Option<PathBuf>,
    obstacle: impl FnOnce() -> Option<&'static str>,
) -> Result<Plan, String> {
    // Not replaced by another: the tests would run against the wrong one.
    let found = named.transpose()?.or_else(there);
    Ok(found.map_or_else(|| obstacle().map_or(Plan::Get, Plan::Replace), Plan::Use))
}

impl Host {
    fn plan(&self, tool: &Tool) -> Result<Plan, String> {
        let there = || self.ours(tool).or_else(|| good_in_path(tool));
        let obstacle = || self.facts.obstacle(tool.source, || self.had_pip());
        match decide(named(tool), there, obstacle)? {
            Plan::Replace(reason) if !tool.has_link() => replaced(tool, reason).map(Plan::Use),
            plan => Ok(plan),
        }
    }

    /// The packages of this system that have to be installed for a tool.
    fn to_install(&self, tool: &Tool) -> Option<&'static str> {
        match tool.source {
            Source::System => Some(tool.packages),
            Source::Debian => None,
            Source::Pip | Source::Module => (!self.had_pip()).then_some("python3 python3-pip"),
        }
    }

    fn carry_out(&self, tool: &Tool, plan: Plan) -> Result<PathBuf, String> {
        match plan {
            Plan::Use(program) => return Ok(program),
            Plan::Replace(reason) => return Err(reason.to_owned()),
            Plan::Get => println!("no {} found: getting it", tool.name),
        }
        if tool.source == Source::Debian {
            return self.fill(tool, &tool.note(), |staging| {
                debian::fetch(tool, self, staging)
            });
        }
        if self.to_install(tool).is_some() {
            self.install();
        }
        if tool.source != Source::System {
            if !self.had_pip() && !pip::has_pip() {
                return Err(format!("`{} -m pip` is not there", pip::python()));
            }
            return self.fill(tool, &tool.note(), |staging| pip::fetch(tool, staging));
        }
        let missing = || format!("{} could not be installed into the PATH", tool.packages);
        tool.found_in_path().ok_or_else(missing)
    }

    /// The folder of a tool in `target/tools`, or its file, if that is all.
    fn place(&self, tool: &Tool) -> PathBuf {
        match tool.source {
            Source::Pip => self.tools.join("bin").join(tool.name),
            Source::Module => self.tools.join("python"),
            _ => self.tools.join(tool.name),
        }
    }

    /// The file that says which version lies there.
    fn note(&self, tool: &Tool) -> PathBuf {
        self.tools.join(format!("{}.version", tool.name))
    }

    /// The tool in `target/tools`, if it is the right version.
    fn ours(&self, tool: &Tool) -> Option<PathBuf> {
        let file = tool.file_in(self.place(tool));
        let note = fs::read_to_string(self.note(tool)).ok()?;
        let is_there = match tool.source {
            Source::Module => pip::imports(tool.file, Some(&file)),
            _ => file.is_file(),
        };
        (is_there && note == tool.note()).then_some(file)
    }

    /// Puts what `fetch` brings to the place of a tool, once that has run; the note of its version comes last.
    fn fill(
        &self,
        tool: &Tool,
        version: &str,
        fetch: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        // In the same file system as the place, and of this process alone.
        let staging = format!("{}.new-{}", tool.name, std::process::id());
        let staging = self.tools.join(staging);
        let place = self.place(tool);
        let failed = |error: io::Error| format!("`{}`: {error}", place.display());
        let fill = || {
            fs::create_dir_all(&staging).map_err(failed)?;
            fetch(&staging)?;
            let file = match tool.file {
                "" => staging.join("bin").join(tool.name),
                file => staging.join(file),
            };
            // It may be meant for another machine.
            tool.said_by(&file, &files::libraries(&staging))?;
            let is_alone = tool.source == Source::Pip;
            files::put(if is_alone { &file } else { &staging }, &place).map_err(failed)?;
            fs::write(self.note(tool), version).map_err(failed)?;
            Ok(tool.file_in(place.clone()))
        };
        let filled = fill();
        files::remove(&staging);
        filled
    }

    /// The one to use where a tool cannot be got.
    fn substitute(&self, tool: &Tool, reason: &str) -> Result<PathBuf, String> {
        let failed = |error: io::Error| error.to_string();
        let link = |staging: &Path| match tool.otherwise {
            Otherwise::Tool(other) => {
                let other = fs::canonicalize(program(other)?).map_err(failed)?;
                files::link(&other, &staging.join(tool.file)).map_err(failed)
            }
            Otherwise::Links(link) => link(staging).map_err(failed),
            _ => Ok(()),
        };
        let found = if tool.has_link() {
            let found = self.fill(tool, "another one", link);
            found.map_err(|other| format!("{}\n{other}", tool.missing(reason)))?
        } else {
            replaced(tool, reason)?
        };
        eprintln!("warning: {reason}: taking {}", found.display());
        Ok(found)
    }

    /// The libraries beside an unpacked program. The tests find them by the note.
    fn libraries(&self, tool: &Tool, program: &Path) -> Result<String, String> {
        let folder = self.place(tool);
        if tool.source != Source::Debian || !program.starts_with(&folder) {
            return Ok(String::new());
        }
        let (libraries, note) = (files::libraries(&folder), folder.join("libraries"));
        let is_noted = fs::read_to_string(&note).is_ok_and(|it| it == libraries);
        let written = if is_noted {
            Ok(())
        } else {
            fs::write(&note, &libraries)
        };
        written.map_err(|error| format!("`{}`: {error}", note.display()))?;
        Ok(libraries)
    }
}

impl Tool {
    fn has_link(&self) -> bool {
        matches!(self.otherwise, Otherwise::Tool(_) | Otherwise::Links(_))
    }

    pub(super) fn missing(&self, reason: &str) -> String {
        format!("no {} found, and {reason}; {}", self.name, self.by_hand)
    }

    /// The first of its names in the `PATH`.
    fn found_in_path(&self) -> Option<PathBuf> {
        self.in_path.split(' ').find_map(find)
    }

    /// The text that says which version it is.
    fn note(&self) -> String {
        match self.source {
            Source::Debian => format!("{LAYOUT} {} {}", self.packages, self.version),
            _ => self.version.to_owned(),
        }
    }

    /// Its file at its place.
    fn file_in(&self, place: PathBuf) -> PathBuf {
        match self.source {
            Source::Debian => place.join(self.file),
            _ => place,
        }
    }
}

/// The one in the `PATH`. If it is not good enough, another one can be unpacked beside it.
fn good_in_path(tool: &Tool) -> Option<PathBuf> {
    let found = tool.found_in_path()?;
    let is_good = tool.source != Source::Debian || tool.said_by(&found, "").is_ok();
    is_good.then_some(found)
}

/// One that this machine has, though the tests have another version.
fn replaced(tool: &Tool, reason: &str) -> Result<PathBuf, String> {
    let found = match tool.otherwise {
        Otherwise::InPath(name) => find(name),
        Otherwise::Python => pip::imports(tool.file, None).then(|| pip::python().into()),
        _ => None,
    };
    found.ok_or_else(|| tool.missing(reason))
}

/// The file that the variables of a tool name, or the reason why it is none.
fn named(tool: &Tool) -> Option<Result<PathBuf, String>> {
    let named = variable(tool.variable).map(PathBuf::from)?;
    let mut files = vec![(tool.variable, named)];
    if tool.names_folder {
        files[0].1.extend(Path::new(tool.file).file_name());
    }
    if !tool.beside.is_empty() {
        files.push((tool.beside, variable(tool.beside)?.into()));
    }
    let gone = files.iter().find(|(_, file)| !is_there(file));
    let gone = gone.map(|(variable, file)| {
        format!("{variable} names `{}`, which is not there", file.display())
    });
    // A Python without the module is the one that gets it.
    let is_enough =
        tool.source != Source::Module || gone.is_some() || pip::imports(tool.file, None);
    is_enough.then(|| gone.map_or_else(|| Ok(files.swap_remove(0).1), Err))
}

/// `true` for a file, and for the name of a program in the `PATH`.
fn is_there(file: &Path) -> bool {
    let is_name = file.components().count() == 1;
    file.is_file() || is_name && file.to_str().is_some_and(|it| find(it).is_some())
}
