//! `cargo fuzz` for one target after another, each for a time, with what is kept of earlier runs: `fuzz/corpus`.
//!
//! On a stable compiler: no sanitizer is needed where there is no unsafe code. What is kept is read and not changed; it is
//! tried by plain tests as well.

use std::fs;

use clap::Args;

use crate::{cargo, files, tools};

#[derive(Args)]
pub(crate) struct Fuzz {
    /// For how long each target is run
    // The fuzzer takes 0 for no limit.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// The only target to run [default: all of them, one after another]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut targets = targets()?;
        if let Some(name) = &self.target {
            targets.retain(|target| target == name);
        }
        if targets.is_empty() {
            return Err("there is no such target in fuzz/fuzz_targets".to_owned());
        }
        let tool = tools::program(&tools::CARGO_FUZZ)?;
        let folder = cargo::target().join("fuzz");
        let built = folder.display().to_string();
        let fuzz = |verb, words: &[&str]| {
            let all = ["fuzz", verb, "--sanitizer", "none", "--target-dir", &built];
            cargo::run_tool(&tool, &[&all, words].concat())
        };
        fuzz("build", &[]).map_err(|error| format!("{error}; it needs a C++ compiler"))?;
        let mut broken = Vec::new();
        for target in targets {
            // New inputs go to the first folder.
            let found = folder.join("corpus").join(&target);
            fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
            let (found, kept) = (found.display().to_string(), format!("fuzz/corpus/{target}"));
            let limits = ["--", "-print_final_stats=1", "-timeout=10", "-max_len=4096"];
            let time = format!("-max_total_time={}", self.seconds);
            let words = [&[&*target, &found, &kept], &limits[..], &[&time]].concat();
            broken.extend(fuzz("run", &words).err().map(|_| target));
        }
        if broken.is_empty() {
            return Ok(());
        }
        Err(format!(
            "a rule was broken: {}. Put the input, whose file is named above, into fuzz/corpus/TARGET under a name that \
             says what it is: the tests try it from then on",
            broken.join(", ")
        ))
    }
}

/// The names of all targets.
fn targets() -> Result<Vec<String>, String> {
    let sources = files::below(&cargo::root().join("fuzz/fuzz_targets"), "rs")?;
    let names = sources.iter().filter_map(|path| path.file_stem()?.to_str());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus() {
        let targets = targets().expect("they can be listed");
        assert!(targets.len() >= 6, "{targets:?}");
        for target in targets {
            let corpus = cargo::root().join("fuzz/corpus").join(&target);
            let count = fs::read_dir(corpus).map_or(0, Iterator::count);
            assert!(count > 10, "{target} has {count}");
        }
    }

    #[test]
    fn every_target_is_built_and_replayed_by_a_test() {
        let read = |path: &str| {
            fs::read_to_string(cargo::root().join(path)).expect("it is where it always was")
        };
        let manifest = read("fuzz/Cargo.toml");
        let replays = [
            "tests/macro_shapes/texts.rs",
            "dlock-runtime/src/fuzzing/tests.rs",
        ]
        .map(read)
        .concat();
        let mut corpora: Vec<_> = fs::read_dir(cargo::root().join("fuzz/corpus"))
            .expect("it can be listed")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        corpora.sort();
        let targets = targets().expect("they can be listed");
        assert_eq!(corpora, targets, "a corpus for each, and for nothing else");
        for target in targets {
            let path = format!("path = \"fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&path), "{target} is not built");
            let replay = format!("replay(\"{target}\", ");
            let is_replayed = replays.lines().any(|line| line.trim().starts_with(&replay));
            assert!(is_replayed, "no test replays what was found by {target}");
        }
    }

    #[test]
    fn no_time_is_not_taken_for_no_limit() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            fuzz: Fuzz,
        }
        let seconds = |text| {
            let line = <Line as clap::Parser>::try_parse_from(["fuzz", "--seconds", text]);
            line.ok().map(|line| line.fuzz.seconds)
        };
        assert_eq!((seconds("1"), seconds("0")), (Some(1), None));
    }
}
