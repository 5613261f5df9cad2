//! One run with one set of servers: begun, broken, mended, ended and judged.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dlock_history::{History, Promise, Return, Section, Violation};
use dlock_testkit::machine_time;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    books::Books,
    crowd::Crowd,
    fault::{Fault, Kind, Topology},
    fenced,
    follow::Stop,
    nemesis::Nemesis,
    random::Random,
    report::Report,
    unseen::{Tokens, unseen},
    worker::{Cheat, KEYS, Store, TTL},
    world::World,
};

/// Every rest of a lock expires by then.
const CLEAN: Duration = Duration::from_secs(30);

/// So many violations are shown.
const SHOWN: usize = 5;

/// A body that begins so soon after a standstill may have been let in before it: when a machine goes on, all processes want
/// its processors at once, and the thread that noted the standstill may have been among the first.
const SETTLES: Duration = Duration::from_secs(1);

/// By how much a replica may be behind its master.
const BEHIND: Duration = Duration::from_millis(500);

/// The lease of a waiter that has been granted the lock and has not answered yet.
const GRANT: Duration = Duration::from_secs(3);

pub(crate) struct Round {
    pub(crate) topology: Topology,
    /// Of faults, one at least.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) seed: u64,
    /// After each kind has been had once, others follow for the rest of this.
    pub(crate) time: Duration,
    pub(crate) cheat: Option<Cheat>,
    pub(crate) processes: usize,
    /// Of its own: what is noted.
    pub(crate) directory: PathBuf,
    /// The present step, for the report of a failure.
    pub(crate) doing: Arc<Mutex<String>>,
}

impl Round {
    pub(crate) async fn run(&self) -> Report {
        let directory = &self.directory;
        let world = World::start(self.topology, self.cheat, self.processes).await;
        let mut random = Random::new(self.seed);
        let seed = random.next();
        let store = match self.topology {
            Topology::Quorum => Store::Quorum,
            _ => Store::One,
        };
        let mut crowd = Crowd::start(directory, world.urls(), store, self.cheat, seed);
        let began = machine_time();
        let mut nemesis = Nemesis::new(&world, &mut crowd, random).await;
        let mut wrong = Vec::new();
        if let Err(error) = self.break_it(&mut nemesis).await {
            wrong.push(error);
        }
        let faults = nemesis.faults;
        wrong.extend(crowd.end().await);
        let seconds = machine_time().saturating_sub(began).as_secs();
        wrong.extend(self.left_over(&world).await);
        wrong.extend(world.difference().await);
        let mut history = History {
            sections: std::mem::take(&mut crowd.follow.sections),
            writes: fenced::read(directory, &KEYS).expect("the log can be read"),
            unseen: unseen(&crowd.follow.unseen, Tokens::now()),
        };
        let mut report = judged(self.topology, &history, &faults);
        report.seconds = seconds;
        if self.cheat.is_none_or(Cheat::takes_locks) {
            let follow = &crowd.follow;
            judge_late(&follow.late, &crowd.stops, &follow.standstills, &mut report);
        }
        history.sections.append(&mut crowd.follow.late);
        judge_writers(&history, &mut report);
        report.posted = crowd.follow.posted;
        let mut unbalanced = std::mem::take(&mut crowd.follow.wrong);
        let books = world.books().await;
        unbalanced.extend(Books::judge_all(&books));
        self.keep("books.json", &books);
        report.violations += unbalanced.len();
        report.wrong.extend(unbalanced.into_iter().take(SHOWN));
        // A crowd that cheats is meant to break promises.
        if self.cheat.is_none() {
            for judged in &mut report.wrong {
                judged.insert_str(0, "broken promise: ");
            }
        }
        report.wrong.splice(0..0, wrong);
        (report.killed, report.stopped) = (crowd.killed.len(), crowd.stops.len());
        report.failed = std::mem::take(&mut crowd.follow.failed);
        self.keep("faults.json", &faults);
        if !report.wrong.is_empty() {
            report.wrong.extend(world.keep(&directory.join("servers")));
        }
        report
    }

    /// Writes it to the directory of the round.
    fn keep(&self, name: &str, what: &impl Serialize) {
        let text = serde_json::to_vec_pretty(what).expect("it is JSON");
        fs::write(self.directory.join(name), text).expect("the directory is ours");
    }

    async fn break_it(&self, nemesis: &mut Nemesis<'_>) -> Result<(), String> {
        nemesis.until_entered(Duration::ZERO).await?;
        let end = Instant::now() + self.time;
        let mut kinds = self.kinds.clone();
        nemesis.random.shuffle(&mut kinds);
        for kind in &kinds {
            self.does(kind.to_string());
            nemesis.inflict(*kind).await?;
        }
        while Instant::now() < end {
            let kind = kinds[nemesis.random.below(kinds.len())];
            self.does(kind.to_string());
            nemesis.inflict(kind).await?;
        }
        self.does("ending it".to_owned());
        Ok(())
    }

    fn does(&self, what: String) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Locks and queues that no process will ever use again.
    async fn left_over(&self, world: &World) -> Option<String> {
        let end = Instant::now() + CLEAN;
        loop {
            let keys = world.left_over().await;
            if keys.is_empty() {
                return None;
            }
            if Instant::now() > end {
                return Some(format!("left on the servers: {keys:?}"));
            }
            sleep(TTL / 10).await;
        }
    }
}

/// The promise that holds for the sections that begin at a moment: for as long as leases last after a server has
/// forgotten, only the order of their tokens.
fn promise(at: Duration, faults: &[Fault]) -> Promise {
    let is_meanwhile = |it: &&Fault| it.began <= at && at <= it.over + TTL;
    let mut forgetful = faults.iter().filter(|it| it.forgets);
    match forgetful.find(is_meanwhile) {
        Some(_) => Promise::Ordered,
        None => Promise::Exclusive,
    }
}

/// The times in which a replica that was behind may have become the master, and the old master served until it learned of that.
fn returns(topology: Topology, faults: &[Fault]) -> Vec<Return> {
    let has_replicas = matches!(topology, Topology::Sentinel | Topology::Cluster);
    // It empties the replicas as well.
    let is_one = |it: &&Fault| has_replicas && it.forgets && it.kind != Kind::DataFlushed;
    let found = faults.iter().filter(is_one).map(|fault| Return {
        from: fault.began.saturating_sub(BEHIND),
        until: fault.over,
        lasts: TTL + GRANT,
    });
    found.collect()
}

fn judged(topology: Topology, history: &History, faults: &[Fault]) -> Report {
    let is_overlap = |it: &&Violation| matches!(it, Violation::Overlap(..));
    let found = history.judge_by(|at| promise(at, faults), &returns(topology, faults));
    let overlaps = found.iter().filter(is_overlap).count();
    let is_exclusive = |it: &&Section| promise(it.entered, faults) == Promise::Exclusive;
    let exclusive = history.sections.iter().filter(is_exclusive).count();
    let strict = history.judge(Promise::Exclusive);
    let all = strict.iter().filter(is_overlap).count();
    let mut report = Report {
        sections: history.sections.len(),
        shared: history
            .sections
            .iter()
            .filter(|it| it.mode.is_shared())
            .count(),
        exclusive,
        writes: history.writes.len(),
        refused: history.refused(),
        overlaps,
        excused: all - overlaps,
        violations: found.len(),
        ..Report::new(topology)
    };
    for violation in found.iter().take(SHOWN) {
        report.wrong.push(shown(violation, faults));
    }
    for fault in faults {
        report.count(fault, longest_without(history, fault));
    }
    report
}

/// No body begins without a lease, unless its process was stopped during the call, or stood still just before by itself.
fn judge_late(late: &[Section], stops: &[Stop], standstills: &[Stop], report: &mut Report) {
    for section in late {
        let of_process = |it: &&Stop| it.process == section.process && it.from <= section.entered;
        let mut stops = stops.iter().filter(of_process);
        let mut standstills = standstills.iter().filter(of_process);
        let was_stopped = stops.any(|it| section.asked <= it.to);
        let stood_still = standstills.any(|it| section.entered <= it.to + SETTLES);
        if was_stopped {
            report.held_up += 1;
        } else if stood_still {
            report.starved += 1;
        } else {
            report.violations += 1;
            let wrong = format!("a body began without a lease:\n  {section:?}");
            report.wrong.push(wrong);
        }
    }
}

/// Every writer has noted a section, even if it was over at once or its process was killed.
fn judge_writers(history: &History, report: &mut Report) {
    let strays = history.judge_writers();
    report.violations += strays.len();
    let shown = strays.iter().take(SHOWN).map(ToString::to_string);
    report.wrong.extend(shown);
}

/// A violation, and what was broken around it.
fn shown(violation: &Violation, faults: &[Fault]) -> String {
    let at = match violation {
        Violation::Overlap(_, later)
        | Violation::TooMany(_, later)
        | Violation::TokensDiffer(_, later)
        | Violation::TokenNotGreater(_, later)
        | Violation::TokenTwice(_, later)
        | Violation::Backwards(later) => Some(later.entered),
        Violation::WentBack(..) | Violation::WronglyRefused(..) | Violation::Stray(_) => None,
    };
    let is_near = |it: &&Fault| at.is_some_and(|at| it.began <= at && at <= it.over + 2 * TTL);
    let near: Vec<_> = faults.iter().filter(is_near).collect();
    format!("{violation}\n  broken around it: {near:?}")
}

/// The longest time without a new section under some key until the recovery from a fault, from the last
/// one that had begun before it.
fn longest_without(history: &History, fault: &Fault) -> Duration {
    let longest = KEYS.iter().map(|key| {
        let sections = history.sections.iter().filter(|it| it.key == *key);
        let entered = sections.map(|it| it.entered);
        let (before, mut entered): (Vec<_>, Vec<_>) = entered
            .filter(|at| *at <= fault.over)
            .partition(|at| *at <= fault.began);
        let last = before.into_iter().max().unwrap_or(fault.began);
        entered.extend([last, fault.over]);
        entered.sort_unstable();
        let gaps = entered
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]));
        gaps.max().unwrap_or_default()
    });
    longest.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use dlock_history::End;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn section(token: i64, entered: Duration, left: Duration) -> Section {
        Section {
            key: KEYS[0].to_owned(),
            mode: dlock_history::Mode::Exclusive,
            process: 1,
            task: 0,
            token,
            asked: entered,
            entered,
            left,
            end: End::Finished,
        }
    }

    fn fault(forgets: bool) -> Fault {
        Fault {
            kind: Kind::MasterKilled,
            began: at(10),
            over: at(20),
            was_felt: true,
            forgets,
        }
    }

    #[test]
    fn an_overlap_is_excused_only_for_as_long_as_forgotten_leases_last() {
        let after = at(20) + TTL;
        for (forgets, entered, overlaps, excused) in [
            (true, at(15), 0, 1),
            (true, after, 0, 1),
            (true, after + Duration::from_millis(1), 1, 0),
            (true, at(9), 1, 0),
            (false, at(15), 1, 0),
        ] {
            let sections = vec![section(1, at(1), at(30)), section(2, entered, at(30))];
            let history = History {
                sections,
                ..History::default()
            };
            let report = judged(Topology::Sentinel, &history, &[fault(forgets)]);
            let counts = (report.overlaps, report.excused);
            assert_eq!(counts, (overlaps, excused), "{entered:?}");
            assert_eq!(report.wrong.len(), overlaps);
        }
    }

    #[test]
    fn a_joiner_may_have_a_smaller_token_only_where_a_replica_may_take_over() {
        let permit = |entered, left| Section {
            mode: dlock_history::Mode::Permits(2),
            ..section(1, entered, left)
        };
        let lost = section(2, at(13), at(14));
        let history = History {
            sections: vec![permit(at(9), at(12)), lost, permit(at(15), at(16))],
            ..History::default()
        };
        let emptied = Fault {
            kind: Kind::DataFlushed,
            ..fault(true)
        };
        for (topology, fault, violations) in [
            (Topology::Sentinel, fault(true), 0),
            (Topology::Cluster, fault(true), 0),
            (Topology::Single, fault(true), 1),
            (Topology::Quorum, fault(true), 1),
            (Topology::Sentinel, fault(false), 1),
            (Topology::Sentinel, emptied, 1),
        ] {
            let report = judged(topology, &history, std::slice::from_ref(&fault));
            assert_eq!(report.violations, violations, "{topology:?} {fault:?}");
        }
    }

    #[test]
    fn the_longest_time_without_a_section_is_that_of_the_worst_key() {
        let mut sections = Vec::new();
        for (index, key) in KEYS.into_iter().enumerate() {
            for second in [1, 9, 11, 13 + index as u64, 19, 30] {
                let mut entered = section(1, at(second), at(second));
                entered.key = key.to_owned();
                sections.push(entered);
            }
        }
        let history = History {
            sections,
            ..History::default()
        };
        assert_eq!(longest_without(&history, &fault(false)), at(6));
        let last = History {
            sections: vec![section(1, at(3), at(4)), section(2, at(7), at(8))],
            ..History::default()
        };
        assert_eq!(longest_without(&last, &fault(false)), at(13));
        let nobody = History::default();
        assert_eq!(longest_without(&nobody, &fault(false)), at(10));
    }

    #[test]
    fn a_body_without_a_lease_is_excused_only_where_its_process_stood_still() {
        let mut late = section(1, at(5), at(5));
        late.asked = at(3);
        for (process, from, to, was_stopped, stood_still) in [
            (1, 4, 5, 1, 1),
            (1, 1, 3, 1, 0),
            (1, 5, 6, 1, 1),
            (1, 1, 2, 0, 0),
            (1, 6, 7, 0, 0),
            (2, 4, 5, 0, 0),
        ] {
            let stop = [Stop {
                process,
                from: at(from),
                to: at(to),
            }];
            for (stops, standstills, held_up) in
                [(&stop[..], &[][..], was_stopped), (&[], &stop, stood_still)]
            {
                let mut report = Report::new(Topology::Single);
                let late = std::slice::from_ref(&late);
                judge_late(late, stops, standstills, &mut report);
                let excused = report.held_up + report.starved;
                let counts = (excused, report.violations, report.wrong.len());
                assert_eq!(counts, (held_up, 1 - held_up, 1 - held_up), "{from} {to}");
            }
        }
    }

    #[test]
    fn a_write_without_a_section_is_found() {
        let mut history = History {
            sections: vec![section(1, at(1), at(1))],
            ..History::default()
        };
        for (token, found) in [(1, 0), (2, 1)] {
            history.writes.push(dlock_history::Write {
                key: KEYS[0].to_owned(),
                process: 1,
                task: 0,
                token,
                accepted: true,
            });
            let mut report = Report::new(Topology::Single);
            judge_writers(&history, &mut report);
            assert_eq!((report.violations, report.wrong.len()), (found, found));
        }
    }
}
