//! Which tests come to which places: each test is run once, in a process of its own that writes that down.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::rooms::Room;
use crate::bench::Bench;
use crate::look::Target;
use crate::switch::REACHED;
use crate::workspace;

/// The tests that run at the same time. Most of them wait.
const AT_ONCE: usize = 4;

/// A test, and what it comes to.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) target: Target,
    pub(super) name: String,
    pub(super) took: Duration,
    reached: BTreeSet<String>,
}

/// All tests of some rooms.
#[derive(Debug)]
pub(super) struct Reach {
    tests: Vec<Test>,
}

impl Reach {
    /// Runs every test of these rooms, which have these targets. One that fails without a mistake, also when it is run again, is
    /// an error.
    pub(super) fn of(bench: &Bench, rooms: &[&Room], targets: &[Target]) -> Result<Self, String> {
        let mut all = Vec::new();
        for target in targets {
            let mut names = bench.names(*target)?;
            names.retain(|name| rooms.iter().any(|room| room.has(*target, name)));
            all.extend(names.into_iter().map(|name| (*target, name)));
        }
        let folder = workspace::target().join("drawn/reached");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).map_err(failed)?;
        let queue = Mutex::new(all.into_iter().enumerate());
        let next = || queue.lock().expect("nothing panics with it").next();
        let work = || {
            let mut tests = Vec::new();
            while let Some((number, (target, name))) = next() {
                let file = folder.join(number.to_string());
                let mut left = 2;
                let took = loop {
                    left -= 1;
                    let began = Instant::now();
                    match bench.alone(target, &name, &[(REACHED, file.as_os_str())])? {
                        None => break began.elapsed(),
                        Some(found) if left == 0 => {
                            return Err(format!("without a mistake there is this: {}", found.by));
                        }
                        Some(found) => println!("failed once without a mistake: {}", found.by),
                    }
                };
                let reached = fs::read_to_string(&file).unwrap_or_default();
                tests.push(Test {
                    target,
                    name,
                    took,
                    reached: reached.lines().map(str::to_owned).collect(),
                });
            }
            Ok(tests)
        };
        let tests = thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let done = workers
                .into_iter()
                .map(|it| it.join().expect("a worker does not panic"));
            done.collect::<Result<Vec<_>, String>>()
        })?;
        let tests = tests.into_iter().flatten().collect();
        Ok(Self { tests })
    }

    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    /// The tests of a room that come to this mistake: those of one target after those of another, and the shorter ones
    /// first.
    pub(super) fn to(&self, room: &Room, mistake: &str) -> Vec<&Test> {
        let tests = self.tests.iter();
        let mut tests: Vec<_> = tests
            .filter(|it| room.has(it.target, &it.name) && it.reached.contains(mistake))
            .collect();
        let order = |target: Target| room.targets.iter().position(|it| *it == target);
        tests.sort_by_key(|it| (order(it.target), it.took));
        tests
    }
}
