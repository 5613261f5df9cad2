//! Puts mistakes into a copy of the sources, one after the other, and sees each of them found.
//!
//! The simulation has to find most of them. Some it cannot see: scripts of Redis are not in it, and
//! where two rules protect from the same, it goes on well without one of them. Each of those names a
//! test. What nothing finds is a rule that nobody would miss.

mod list;
mod tree;
mod way;

use std::time::Duration;

use clap::Args;

use self::list::{ALL, Mutant};
use self::tree::Tree;
use self::way::{Bench, Found};

#[derive(Args)]
pub(crate) struct Mutants {
    /// The first seed of the simulation
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// The mistakes to make [default: all of them]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl Mutants {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mutants = chosen(&self.names)?;
        let tree = Tree::copy()?;
        let bench = Bench::new(&tree, self.from);
        println!("without a mistake");
        bench.finds_nothing(mutants.iter().map(|mutant| &mutant.way))?;
        let mut lines = Vec::new();
        let mut survivors = Vec::new();
        for mutant in mutants {
            println!("{}: {}", mutant.name, mutant.mistake);
            println!("  breaks: {}", mutant.rule);
            let mistake = tree.mistake(mutant.file, mutant.from, mutant.to)?;
            let found = bench.look(&mutant.way);
            mistake.undo()?;
            let found = found.map_err(|reason| format!("`{}`: {reason}", mutant.name))?;
            match &found {
                Some(found) => println!("  found: {} ({})", found.by, seconds(found.took)),
                None => survivors.push(mutant.name),
            }
            lines.push(line(mutant, found.as_ref()));
        }
        println!("\n{}\n{}", heading(), lines.join("\n"));
        if survivors.is_empty() {
            return Ok(());
        }
        Err(format!("nothing has found {}", survivors.join(", ")))
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Mutant>, String> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let by_name = |name: &String| {
        let mutant = ALL.iter().find(|mutant| mutant.name == name);
        mutant.ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|mutant| mutant.name).collect();
            format!(
                "there is no mutant `{name}`: there are {}",
                known.join(", ")
            )
        })
    };
    names.iter().map(by_name).collect()
}

fn heading() -> &'static str {
    "| Mutant | What is wrong | Found | in | by |\n|---|---|---|---|---|"
}

fn line(mutant: &Mutant, found: Option<&Found>) -> String {
    let (name, mistake) = (mutant.name, mutant.mistake);
    match found {
        Some(Found { after, took, by }) => {
            format!(
                "| `{name}` | {mistake} | {after} | {} | {by} |",
                seconds(*took)
            )
        }
        None => format!("| `{name}` | {mistake} | **not found** | | |"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::cargo;

    fn read(file: &str) -> String {
        let text = fs::read_to_string(cargo::root().join(file));
        text.unwrap_or_else(|error| panic!("{file} cannot be read: {error}"))
    }

    fn in_one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_mistake_is_about_one_place_that_is_there() {
        for mutant in ALL {
            let text = read(mutant.file);
            let places = text.matches(mutant.from).count();
            assert_eq!(places, 1, "of `{}` in {}", mutant.name, mutant.file);
            assert_ne!(mutant.from, mutant.to, "{}", mutant.name);
        }
    }

    #[test]
    fn each_breaks_a_rule_that_is_written_down() {
        let rules = in_one_line(&read("ARCHITECTURE.md"));
        for mutant in ALL {
            assert!(
                rules.contains(mutant.rule),
                "{}: {}",
                mutant.name,
                mutant.rule
            );
        }
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: BTreeSet<_> = ALL.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), ALL.len());
        let some = chosen(&["no-drift".into(), "same-token".into()]).expect("both are known");
        let some: Vec<_> = some.iter().map(|mutant| mutant.name).collect();
        assert_eq!(some, ["no-drift", "same-token"]);
        let error = chosen(&["no-such".into()]).expect_err("nothing has that name");
        assert!(
            error.contains("no-such") && error.contains("no-drift"),
            "{error}"
        );
    }
}
