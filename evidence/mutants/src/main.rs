//! Puts mistakes into a copy of the sources, and sees each of them noticed by a test.
//!
//! The copy is built once, with every mistake behind a switch of its own, and its tests are run with one
//! after the other switched on. A mistake that no test notices breaks a rule without a test, or makes no
//! difference: then the list says why.

mod bench;
mod drawn;
mod leftovers;
mod list;
mod look;
mod mutant;
mod programs;
mod seeds;
mod switch;
mod tree;
mod trial;
mod workspace;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

use clap::Parser;

use self::bench::{Bench, Found};
use self::look::Look;
use self::mutant::Mutant;
use self::seeds::Seeds;
use self::tree::Tree;

/// Puts mistakes into a copy of the library and the command, and sees each of them noticed by a test
///
/// Builds the copy once, in target/mutants, with each mistake behind a switch, and runs tests and the simulation with one
/// after the other switched on. Ends with a table: caught, survived, or equivalent with the reason. Fails if a mistake
/// survives that is not listed as equivalent, or one is caught that is.
#[derive(Parser)]
#[command(name = "cargo xtask mutants", bin_name = "cargo xtask mutants")]
struct Mutants {
    /// The first seed of the simulation
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// How many mistakes are tried at a time: most tests wait, and some do not pass beside many others
    #[arg(long, default_value_t = 1)]
    jobs: usize,

    /// Only see that the copy compiles with all mistakes in it
    #[arg(long, conflicts_with_all = ["names", "jobs", "from"])]
    compile: bool,

    /// Draw so many mistakes of each room from the sources, and count how many are noticed; the names are those of rooms
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["jobs", "from", "compile"])]
    sample: Option<usize>,

    /// Which of the samples
    #[arg(long, default_value_t = 0, requires = "sample")]
    seed: u64,

    /// The mistakes to make, by their names, by the beginning of those, or by a part of the path of a file
    /// with a slash in it [default: all of them]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Where the copy is, in the target.
const FOLDER: &str = "mutants";

/// The packages in whose folders tests keep cases that have failed.
const PACKAGES: [&str; 8] = [
    "dlock-admin",
    "dlock-admin-web",
    "dlock-net",
    "dlock-runtime",
    "dlock-cli",
    "dlock-postgres",
    "dlock-etcd",
    "dlock-zookeeper",
];

/// The result for a mistake.
struct Verdict {
    mutant: &'static Mutant,
    /// The test that has noticed it, if one has; an error if it could not be tried.
    found: Result<Option<Found>, String>,
}

fn main() -> ExitCode {
    match Mutants::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

impl Mutants {
    fn run(&self) -> Result<(), String> {
        if let Some(count) = self.sample {
            return drawn::run(count, self.seed, &self.names);
        }
        let began = Instant::now();
        let all = list::all();
        if self.compile {
            return programs::compiles(&Tree::copy(FOLDER, &Seeds::listed(&all)?)?);
        }
        let mutants = chosen(&all, &self.names)?;
        let looks: Vec<Look> = mutants.iter().flat_map(|it| it.looks).copied().collect();
        let tree = Tree::copy(FOLDER, &Seeds::listed(&all)?)?;
        let bench = Bench::build(&tree, &looks, self.from)?;
        println!("without a mistake, built in {}", seconds(began.elapsed()));
        bench.finds_nothing(&looks)?;
        let verdicts = self.try_all(&bench, &tree, mutants)?;
        println!("\n{}", table(&verdicts));
        println!("{}, in {}", summary(&verdicts), seconds(began.elapsed()));
        let wrong: Vec<_> = verdicts.iter().filter_map(Verdict::error).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(wrong.join("; "))
    }

    /// The results in order; as many mistakes are tried at a time as the option says.
    fn try_all(
        &self,
        bench: &Bench,
        tree: &Tree,
        mutants: Vec<&'static Mutant>,
    ) -> Result<Vec<Verdict>, String> {
        let count = mutants.len();
        let queue = Mutex::new(mutants.into_iter().enumerate());
        let next = || queue.lock().expect("nothing panics with it").next();
        let work = || {
            let mut verdicts = Vec::new();
            while let Some((at, mutant)) = next() {
                let found = bench.find(mutant.looks, mutant.name);
                let verdict = Verdict { mutant, found };
                println!("{} of {count}, {}", at + 1, verdict.text());
                verdicts.push((at, verdict));
                // Beside others that would be taken away from a test that is about to write there.
                if self.jobs == 1 {
                    tree.forget_cases(&PACKAGES)?;
                }
            }
            Ok::<_, String>(verdicts)
        };
        let mut verdicts = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            let done = workers
                .into_iter()
                .map(|it| it.join().expect("a worker does not panic"));
            done.collect::<Result<Vec<_>, String>>()
        })?
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
        verdicts.sort_by_key(|(at, _)| *at);
        Ok(verdicts.into_iter().map(|(_, verdict)| verdict).collect())
    }
}

/// The mutants whose names are, or begin with, one of `names`, or whose paths contain it.
fn chosen(all: &[&'static Mutant], names: &[String]) -> Result<Vec<&'static Mutant>, String> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let mut chosen = Vec::new();
    for name in names {
        let exact: Vec<_> = all.iter().filter(|it| it.name == name).copied().collect();
        let begin = all.iter().filter(|it| {
            it.name.starts_with(name.as_str()) || name.contains('/') && it.file.contains(name)
        });
        let meant = if exact.is_empty() {
            begin.copied().collect()
        } else {
            exact
        };
        if meant.is_empty() {
            let known: Vec<_> = all.iter().map(|mutant| mutant.name).collect();
            let known = known.join(", ");
            return Err(format!("there is no mutant `{name}`: there are {known}"));
        }
        chosen.extend(meant);
    }
    Ok(chosen)
}

/// The line in which the mistake is made.
fn place(mutant: &Mutant) -> String {
    let text = fs::read_to_string(workspace::root().join(mutant.file)).unwrap_or_default();
    let places = mutant.find_in(&text).unwrap_or_default();
    let at = places.first().map_or(0, |place| place.marked.start);
    let line = text[..at].matches('\n').count() + 1;
    format!("{}:{line}", mutant.file)
}

impl Verdict {
    fn name(&self) -> &'static str {
        match (&self.found, self.mutant.equivalent) {
            (Err(_), _) => "**not tried**",
            (Ok(Some(_)), None) => "caught",
            (Ok(None), None) => "**survived**",
            (Ok(None), Some(_)) => "equivalent",
            (Ok(Some(_)), Some(_)) => "**caught, and listed as equivalent**",
        }
    }

    fn reason(&self) -> &str {
        match &self.found {
            Err(error) => error,
            Ok(Some(found)) => &found.by,
            Ok(None) => self.mutant.equivalent.unwrap_or_default(),
        }
    }

    fn took(&self) -> String {
        let found = self.found.as_ref().ok().and_then(Option::as_ref);
        found.map_or_else(String::new, |found| seconds(found.took))
    }

    /// All there is to know of it, in some lines.
    fn text(&self) -> String {
        let Mutant { name, mistake, .. } = self.mutant;
        let (place, result, reason) = (place(self.mutant), self.name(), self.reason());
        let took = match &*self.took() {
            "" => String::new(),
            took => format!(" in {took}"),
        };
        let rule = self.mutant.rule.map(|rule| format!("  breaks: {rule}\n"));
        let rule = rule.unwrap_or_default();
        format!("{name}: {mistake}\n  at {place}\n{rule}  {result}{took}: {reason}")
    }

    fn error(&self) -> Option<String> {
        let name = self.mutant.name;
        match (&self.found, self.mutant.equivalent) {
            (Err(error), _) => Some(format!("`{name}`: {error}")),
            (Ok(None), None) => Some(format!("nothing has noticed `{name}`")),
            (Ok(Some(found)), Some(_)) => {
                let by = &found.by;
                Some(format!("`{name}` makes a difference after all, by {by}"))
            }
            (Ok(Some(_)), None) | (Ok(None), Some(_)) => None,
        }
    }
}

fn table(verdicts: &[Verdict]) -> String {
    let heading = "| Mutant | What is wrong | Result | in | by, or why |\n|---|---|---|---|---|";
    let line = |verdict: &Verdict| {
        let Mutant { name, mistake, .. } = verdict.mutant;
        let (result, took, reason) = (verdict.name(), verdict.took(), verdict.reason());
        format!("| `{name}` | {mistake} | {result} | {took} | {reason} |")
    };
    let lines = iter::once(heading.to_owned()).chain(verdicts.iter().map(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn summary(verdicts: &[Verdict]) -> String {
    let count = |found: bool, equivalent: bool| {
        let is_meant = |it: &&Verdict| {
            let is_found = it.found.as_ref().map(Option::is_some);
            is_found == Ok(found) && it.mutant.equivalent.is_some() == equivalent
        };
        verdicts.iter().filter(is_meant).count()
    };
    let (caught, survived) = (count(true, false), count(false, false));
    let (equivalent, wrongly) = (count(false, true), count(true, true));
    let all = verdicts.len();
    let failed = all - caught - survived - equivalent - wrongly;
    let mut parts =
        format!("{all} mistakes: {caught} caught, {survived} survived, {equivalent} equivalent");
    for (count, what) in [
        (wrongly, "caught and listed as equivalent"),
        (failed, "not tried"),
    ] {
        if count > 0 {
            parts = format!("{parts}, {count} {what}");
        }
    }
    parts
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::drawn::in_one_line;
    use super::*;

    fn read(file: &str) -> String {
        let text = fs::read_to_string(workspace::root().join(file));
        text.unwrap_or_else(|error| panic!("{file} cannot be read: {error}"))
    }

    #[test]
    fn each_mistake_is_about_one_place_that_is_there() {
        let mut errors = Vec::new();
        for mutant in list::all() {
            let text = read(mutant.file);
            match mutant.find_in(&text) {
                Ok(places) => {
                    for place in places {
                        assert_ne!(text[place.marked], *place.wrong, "{}", mutant.name);
                    }
                }
                Err(error) => errors.push(error),
            }
            assert!(
                mutant.second.is_none() || !switch::is_script(mutant.file),
                "{}: a script is changed in one place",
                mutant.name
            );
        }
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }

    #[test]
    fn a_mistake_in_a_part_of_a_script_is_made_there() {
        let all = list::all();
        for (script, parts) in switch::PARTS {
            let mut whole = String::new();
            for part in parts {
                let file = format!("dlock-runtime/src/store/redis/protocol/{part}.lua");
                let (begin, text) = (whole.len(), read(&file));
                whole.push_str(&text);
                for mutant in all.iter().filter(|it| it.file == file) {
                    for place in mutant.find_in(&text).expect("its place is there") {
                        let (start, quoted) = (place.whole.start, &text[place.whole]);
                        // The first one is replaced.
                        let found = whole.find(quoted);
                        assert_eq!(found, Some(begin + start), "{} in {script}", mutant.name);
                    }
                }
            }
        }
    }

    #[test]
    fn all_of_a_file_can_be_put_into_it_together() {
        let mut files = BTreeMap::<_, Vec<_>>::new();
        let all = list::all();
        let seeds = Seeds::listed(&all).unwrap_or_else(|error| panic!("{error}"));
        for mutant in all.into_iter().filter(|it| !switch::is_script(it.file)) {
            files.entry(mutant.file).or_default().push(mutant);
        }
        for (file, mutants) in files {
            let count = mutants.len();
            let made = seeds.source(Path::new(file)).expect("it has mistakes");
            let made = made.unwrap_or_else(|error| panic!("{error}"));
            let switches = made.matches("crate::mistakes::is_on(").count();
            assert!(switches >= count, "{file} has {switches} of {count}");
        }
    }

    /// The modules whose heads have the rules of one deployment alone.
    const WITH_RULES: [&str; 24] = [
        "dlock-etcd/src/base.rs",
        "dlock-etcd/src/calls.rs",
        "dlock-etcd/src/dial.rs",
        "dlock-etcd/src/followed.rs",
        "dlock-etcd/src/leases.rs",
        "dlock-etcd/src/names.rs",
        "dlock-etcd/src/near.rs",
        "dlock-etcd/src/places.rs",
        "dlock-etcd/src/queue.rs",
        "dlock-etcd/src/release.rs",
        "dlock-etcd/src/renew.rs",
        "dlock-etcd/src/requests.rs",
        "dlock-etcd/src/settle.rs",
        "dlock-postgres/src/pooled.rs",
        "dlock-postgres/src/schema/functions.sql",
        "dlock-postgres/src/store.rs",
        "dlock-runtime/src/store/quorum.rs",
        "dlock-runtime/src/store/redis/net/home.rs",
        "dlock-runtime/src/store/redis/net/resolver.rs",
        "dlock-runtime/src/store/redis/topology/cluster.rs",
        "dlock-zookeeper/src/fence.rs",
        "dlock-zookeeper/src/proof.rs",
        "dlock-zookeeper/src/queue.rs",
        "dlock-zookeeper/src/requests.rs",
    ];

    #[test]
    fn a_rule_that_is_broken_is_written_down() {
        let mut rules = in_one_line(&read("ARCHITECTURE.md"));
        for file in WITH_RULES {
            let text = read(file);
            let is_sql = Path::new(file).extension().is_some_and(|it| it == "sql");
            let mark = if is_sql { "--" } else { "//!" };
            let head = text.lines().map_while(|line| line.strip_prefix(mark));
            rules.extend([" ", &in_one_line(&head.collect::<Vec<_>>().join(" "))]);
        }
        for mutant in list::all() {
            let (name, rule) = (mutant.name, mutant.rule.unwrap_or_default());
            assert!(rules.contains(rule), "{name}: {rule}");
        }
    }

    #[test]
    fn each_has_a_name_of_its_own_and_something_that_looks_for_it() {
        let all = list::all();
        let names: BTreeSet<_> = all.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), all.len());
        for mutant in &all {
            assert!(!mutant.looks.is_empty(), "{}", mutant.name);
        }
        let some = chosen(&all, &["no-drift".into(), "same-tok".into()]).expect("both are known");
        let some: Vec<_> = some.iter().map(|mutant| mutant.name).collect();
        assert_eq!(some, ["no-drift", "same-token"]);
        let some = chosen(&all, &["protocol/drop".into()]).expect("that is a file");
        assert!(!some.is_empty() && some.iter().all(|it| it.file.ends_with("/drop.lua")));
        let error = chosen(&all, &["no-such".into()]).expect_err("nothing has that name");
        assert!(
            error.contains("no-such") && error.contains("no-drift"),
            "{error}"
        );
    }

    #[test]
    fn only_what_is_expected_is_no_error() {
        static WRONG: Mutant = Mutant::new("w", "It is wrong", "p/f.rs", "a", "b", &[]);
        static SAME: Mutant = WRONG.makes_no_difference("it is the same");
        let found = || {
            Some(Found {
                by: "`t`".into(),
                took: Duration::from_secs(2),
            })
        };
        let verdict = |mutant, found| Verdict { mutant, found };
        let good = [verdict(&WRONG, Ok(found())), verdict(&SAME, Ok(None))];
        assert!(good.iter().all(|verdict| verdict.error().is_none()));
        assert_eq!(
            summary(&good),
            "2 mistakes: 1 caught, 0 survived, 1 equivalent"
        );
        let table = table(&good);
        assert!(
            table.contains("| `w` | It is wrong | caught | 2.0 s | `t` |"),
            "{table}"
        );
        assert!(
            table.contains("| equivalent |  | it is the same |"),
            "{table}"
        );
        let bad = [
            verdict(&WRONG, Ok(None)),
            verdict(&SAME, Ok(found())),
            verdict(&WRONG, Err("there is no test".into())),
        ];
        let summed = "1 survived, 0 equivalent, 1 caught and listed as equivalent, 1 not tried";
        assert!(summary(&bad).ends_with(summed), "{}", summary(&bad));
        assert!(bad.iter().all(|verdict| verdict.error().is_some()));
    }
}
