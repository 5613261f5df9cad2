//! Draws mistakes from the sources, and counts how many of them the tests notice.
//!
//! The operators know nothing of what the tests look at, so the rate says something about mistakes for which no test was
//! written. All that are drawn are built into one copy, each behind a switch. Each test is run once without a mistake, and writes
//! down to which of them it comes; a mistake is tried with those tests alone, the nearest first.

mod judged;
mod reach;
mod rooms;
mod rust;
mod script;

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::time::{Duration, Instant};

use self::judged::Judged;
use self::reach::{Reach, Test};
use self::rooms::{ROOMS, Room, room_of, test_modules};
use super::bench::Bench;
use super::programs;
use super::seeds::Seeds;
use super::switch::{Form, Seed, is_script};
use super::tree::{self, Tree};
use super::{PACKAGES, seconds};
use crate::workspace;

/// Where the copy is, in the target.
const FOLDER: &str = "drawn";

/// A mistake takes as long as its tests without it, so many times over, and a while.
const TIMES: u32 = 4;
const A_WHILE: Duration = Duration::from_secs(20);

/// Tests that take less than this together are tried before the others of their target.
const SHORT: Duration = Duration::from_secs(3);

/// A mistake that an operator makes.
#[derive(Clone, Debug)]
struct Draft {
    /// The function around it.
    function: String,
    at: Range<usize>,
    /// The text that takes its place, with a zero where the switch of an insertion will be.
    wrong: String,
    form: Form,
}

/// A draft of a file.
#[derive(Clone, Debug)]
struct Drawn {
    name: String,
    file: String,
    line: usize,
    right: String,
    draft: Draft,
    why_equivalent: Option<String>,
}

/// The result for one of them.
enum Verdict {
    Caught(Duration),
    /// So many tests came to it.
    Survived(usize),
}

impl Draft {
    fn shown(&self) -> String {
        self.wrong.replace('\0', "…")
    }

    fn seed(&self, name: &str, file: &str, text: &str) -> Seed {
        let switch = format!("crate::mistakes::is_on({name:?})");
        let whole = if is_script(file) {
            context(text, &self.at)
        } else {
            self.at.clone()
        };
        Seed {
            name: name.to_owned(),
            at: self.at.clone(),
            wrong: self.wrong.replace('\0', &switch),
            form: self.form,
            whole,
        }
    }
}

/// The lines around a place that are in the text once.
fn context(text: &str, at: &Range<usize>) -> Range<usize> {
    let start_of = |at: usize| text[..at].rfind('\n').map_or(0, |it| it + 1);
    let end = text[at.end..]
        .find('\n')
        .map_or(text.len(), |it| at.end + it);
    let mut start = start_of(at.start);
    while start > 0 && text.matches(&text[start..end]).count() > 1 {
        start = start_of(start - 1);
    }
    start..end
}

pub(super) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn drafts_of(file: &str, text: &str) -> Result<Vec<Draft>, String> {
    let drafts = if is_script(file) {
        script::drafts(file, text)
    } else {
        rust::drafts(text)
    };
    drafts.map_err(|error| format!("{file}: {error}"))
}

/// The mistakes of a room that are tried.
struct Sample {
    room: &'static Room,
    /// How many the operators make of the room.
    from: usize,
    drawn: Vec<Drawn>,
}

/// Draws `count` mistakes of each of these rooms, or of all, and tells what has noticed them.
pub(super) fn run(count: usize, number: u64, names: &[String]) -> Result<(), String> {
    let began = Instant::now();
    let judged = judged::all()?;
    let rooms = chosen(names)?.into_iter();
    let all = rooms.map(|room| Ok((room, all_of(room, number, &judged)?)));
    let all: Vec<_> = all.collect::<Result<_, String>>()?;
    let (tree, samples) = compiled(all, count)?;
    println!("compiled in {}", seconds(began.elapsed()));
    let rooms: Vec<_> = samples.iter().map(|it| it.room).collect();
    let targets = rooms.iter().flat_map(|room| room.targets).copied();
    let targets: Vec<_> = targets.collect::<BTreeSet<_>>().into_iter().collect();
    let bench = Bench::of(&tree, &targets)?;
    let reach = Reach::of(&bench, &rooms, &targets)?;
    println!(
        "what {} tests come to is known after {}",
        reach.len(),
        seconds(began.elapsed())
    );
    let mut lines = vec![
        "| Room | Drawn from | Tried | Caught | Survived | Equivalent | Rate | At least |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for sample in &samples {
        let line = look_through(&tree, &bench, &reach, sample)?;
        println!("{line}");
        lines.push(line);
    }
    println!("\n{}", lines.join("\n"));
    println!("At least: the lower bound of the rate, with a probability of 95 % (Wilson).");
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Room>, String> {
    if names.is_empty() {
        return Ok(ROOMS.iter().collect());
    }
    let find = |name: &String| {
        let room = ROOMS.iter().find(|it| it.name == name);
        room.ok_or_else(|| {
            let known: Vec<_> = ROOMS.iter().map(|it| it.name).collect();
            format!("there is no room `{name}`: there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// The line of a room in the table.
fn look_through(
    tree: &Tree,
    bench: &Bench,
    reach: &Reach,
    sample: &Sample,
) -> Result<String, String> {
    let began = Instant::now();
    let Sample { room, from, drawn } = sample;
    println!("{}: {} of {from} mistakes", room.name, drawn.len());
    let (mut caught, mut survived, mut equivalent) = (0, 0, 0);
    let mut times = Vec::new();
    for (index, mistake) in drawn.iter().enumerate() {
        if mistake.why_equivalent.is_some() {
            equivalent += 1;
            continue;
        }
        let (verdict, took) = match tried(bench, reach, room, mistake) {
            Ok(tried) => tried,
            Err(error) => {
                println!("{} could not be tried: {error}", mistake.place());
                continue;
            }
        };
        times.push(took);
        let result = match verdict {
            Verdict::Caught(after) => {
                caught += 1;
                format!("caught in {}", seconds(after))
            }
            Verdict::Survived(tests) => {
                survived += 1;
                format!("SURVIVED {tests} tests")
            }
        };
        println!(
            "{} {} of {}: {} in {}: {result}\n    {} => {}",
            room.name,
            index + 1,
            drawn.len(),
            mistake.place(),
            mistake.draft.function,
            mistake.right,
            in_one_line(&mistake.draft.shown()),
        );
        tree.forget_cases(&PACKAGES)?;
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "{}: {} in all, {} a mistake in the median",
        room.name,
        seconds(began.elapsed()),
        seconds(median)
    );
    let tried = caught + survived;
    Ok(format!(
        "| {} | {from} | {tried} | {caught} | {survived} | {equivalent} | {:.3} | {:.3} |",
        room.name,
        rate(caught, tried),
        lower_bound(caught, tried),
    ))
}

fn rate(caught: u32, tried: u32) -> f64 {
    f64::from(caught) / f64::from(tried.max(1))
}

/// The lower end of the one-sided interval of Wilson, "Probable Inference, the Law of Succession, and Statistical Inference"
/// (1927), for 95 %.
fn lower_bound(caught: u32, tried: u32) -> f64 {
    const Z: f64 = 1.645;
    let (p, n) = (rate(caught, tried), f64::from(tried.max(1)));
    let square = Z * Z / n;
    let middle = p + square / 2.0;
    let half = Z * (p * (1.0 - p) / n + square / (4.0 * n)).sqrt();
    (middle - half) / (1.0 + square)
}

/// All mistakes of a room, in an order that is drawn.
fn all_of(room: &Room, number: u64, judged: &[Judged]) -> Result<Vec<Drawn>, String> {
    let (mut files, mut of_tests) = (Vec::new(), Vec::new());
    for path in tree::tracked()? {
        let Some(file) = path.to_str().filter(|it| room_of(it).is_some()) else {
            continue;
        };
        let text = fs::read_to_string(workspace::root().join(file));
        let text = text.map_err(|error| format!("{file}: {error}"))?;
        of_tests.extend(test_modules(file, &text));
        if room_of(file).map(|it| it.name) == Some(room.name) {
            files.push((file.to_owned(), text));
        }
    }
    let is_of_tests = |file: &str| {
        let rest = of_tests.iter().filter_map(|it| file.strip_prefix(&**it));
        rest.into_iter().any(|it| it.starts_with(['.', '/']))
    };
    let mut all = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| !is_of_tests(file)) {
        for draft in drafts_of(file, text)? {
            let equivalent = judged.iter().find(|it| it.is(file, text, &draft));
            all.push(Drawn {
                name: String::new(),
                file: file.clone(),
                line: text[..draft.at.start].matches('\n').count() + 1,
                right: in_one_line(&text[draft.at.clone()]),
                why_equivalent: equivalent.map(|it| it.why.clone()),
                draft,
            });
        }
    }
    // By the text, so that a change elsewhere leaves the others in their order.
    all.sort_by_cached_key(|it| {
        let mut hasher = DefaultHasher::new();
        let key = (
            number,
            &it.file,
            &it.draft.function,
            &it.right,
            &it.draft.wrong,
        );
        key.hash(&mut hasher);
        (hasher.finish(), it.draft.at.start)
    });
    for (index, drawn) in all.iter_mut().enumerate() {
        drawn.name = format!("{}{index}", room.name);
    }
    Ok(all)
}

/// The first `count` mistakes of each room that lie in each other or side by side and compile, in one copy of the sources.
fn compiled(
    all: Vec<(&'static Room, Vec<Drawn>)>,
    count: usize,
) -> Result<(Tree, Vec<Sample>), String> {
    // Some will not compile.
    let most = count + count / 3 + 5;
    let mut samples = Vec::new();
    let mut seeds = Seeds::default();
    for (room, all) in all {
        let from = all.len();
        let mut taken: Vec<Drawn> = Vec::new();
        for drawn in all {
            let (file, at) = (&drawn.file, &drawn.draft.at);
            let crosses = |other: &Drawn| other.file == *file && cross(at, &other.draft.at);
            if taken.iter().any(crosses) {
                continue;
            }
            seeds.put(file, |text| drawn.draft.seed(&drawn.name, file, text))?;
            taken.push(drawn);
            if taken.len() == most {
                break;
            }
        }
        samples.push(Sample {
            room,
            from,
            drawn: taken,
        });
    }
    loop {
        let tree = Tree::copy(FOLDER, &seeds)?;
        let packages = seeds.packages().into_iter();
        let packages: BTreeSet<_> = packages.map(str::to_owned).collect();
        let broken = programs::broken(&tree, &packages)?;
        if broken.is_empty() {
            for sample in &mut samples {
                sample.drawn.truncate(count);
            }
            return Ok((tree, samples));
        }
        println!("{} do not compile", broken.len());
        seeds.remove(&broken);
        for sample in &mut samples {
            sample.drawn.retain(|it| !broken.contains(&it.name));
        }
    }
}

/// Whether each has a part that the other has not.
fn cross(one: &Range<usize>, other: &Range<usize>) -> bool {
    let overlap = one.start < other.end && other.start < one.end;
    let is_in = |inner: &Range<usize>, outer: &Range<usize>| {
        outer.start <= inner.start && inner.end <= outer.end
    };
    overlap && !is_in(one, other) && !is_in(other, one)
}

/// Tries the tests that come to a mistake.
fn tried(
    bench: &Bench,
    reach: &Reach,
    room: &Room,
    mistake: &Drawn,
) -> Result<(Verdict, Duration), String> {
    let began = Instant::now();
    let tests = reach.to(room, &mistake.name);
    for group in groups(&tests) {
        let names: Vec<_> = group.iter().map(|it| &*it.name).collect();
        let usual: Duration = group.iter().map(|it| it.took).sum();
        let limit = A_WHILE + usual * TIMES;
        let found = bench.these(group[0].target, &names, &mistake.name, limit)?;
        if found.is_some() {
            return Ok((Verdict::Caught(began.elapsed()), began.elapsed()));
        }
    }
    Ok((Verdict::Survived(tests.len()), began.elapsed()))
}

/// The tests that are run by one program at a time: of each target, first the short ones.
fn groups<'a>(tests: &'a [&'a Test]) -> Vec<&'a [&'a Test]> {
    let mut groups = Vec::new();
    for of_target in tests.chunk_by(|one, other| one.target == other.target) {
        let mut sum = Duration::ZERO;
        let short = of_target.iter().take_while(|test| {
            sum += test.took;
            sum <= SHORT
        });
        let (short, long) = of_target.split_at(short.count());
        groups.extend([short, long].into_iter().filter(|it| !it.is_empty()));
    }
    groups
}

impl Drawn {
    fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_script_has_lines_around_it_that_are_there_once() {
        let text = "a\nb c\nd\nb c\n";
        assert_eq!(&text[context(text, &(10..11))], "d\nb c");
        assert_eq!(&text[context(text, &(0..1))], "a");
    }

    #[test]
    fn places_may_lie_in_each_other_but_not_cross() {
        assert!(cross(&(0..2), &(1..3)) && cross(&(1..3), &(0..2)));
        assert!(!cross(&(0..3), &(1..2)) && !cross(&(0..1), &(1..2)));
        assert!(!cross(&(0..3), &(0..3)));
    }

    #[test]
    fn the_bound_is_that_of_wilson() {
        let near = |one: f64, other: f64| (one - other).abs() < 0.0005;
        assert!(
            near(lower_bound(193, 200), 0.9367),
            "{}",
            lower_bound(193, 200)
        );
        assert!(near(lower_bound(0, 10), 0.0));
        assert!(near(lower_bound(10, 10), 0.7871), "{}", lower_bound(10, 10));
    }

    #[test]
    fn every_source_can_be_read_by_the_operators() {
        for path in tree::tracked().expect("this is a checkout") {
            let file = path.to_str().expect("a name is a text");
            if room_of(file).is_some() {
                let text =
                    fs::read_to_string(workspace::root().join(file)).expect("it can be read");
                let drafts = drafts_of(file, &text).unwrap_or_else(|error| panic!("{error}"));
                for draft in drafts {
                    assert_ne!(text[draft.at.clone()], draft.wrong, "{file}");
                }
            }
        }
    }
}
