//! The parts that a whole run shares: time, servers, the weather of the network, and the judge's notes.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock::{
    clock::{Clock, Moment},
    store::{ClientId, HintSink, OwnerId},
};
use dlock_history::{Promise, Register, Section};
use tokio::time::Instant;

use crate::{
    dice::Dice,
    flaw::Flaw,
    host::Host,
    plan::Plan,
    server::Server,
    verdict::{Counts, Finding},
};

/// Everything there is.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) register: Register,
    start: Instant,
    log: Option<Mutex<String>>,
    calm: AtomicBool,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) servers: Vec<Node>,
    pub(crate) weather: Weather,
    pub(crate) sections: Vec<Section>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) counts: Counts,
    /// Since when the world holds less than exclusion, and what it still holds.
    pub(crate) lessened: Option<(Duration, Promise)>,
    /// Until when all processes were held up.
    late_until: Option<Instant>,
    /// For how long the machine of all processes has slept.
    asleep: Duration,
    /// How long the run took.
    took: Duration,
    /// How many bodies share a key at the moment.
    pub(crate) together: BTreeMap<String, usize>,
    /// How many tasks want a key exclusively in the end, and are not in yet.
    pub(crate) last_writers: usize,
    /// Short names of clients, in the order of their appearance.
    names: BTreeMap<ClientId, usize>,
}

/// A server and its clients.
pub(crate) struct Node {
    pub(crate) server: Server,
    /// When it can be reached again.
    pub(crate) away_until: Instant,
    /// The same for one that has forgotten its promises, and must not be asked before.
    pub(crate) barred_until: Instant,
    pub(crate) sinks: BTreeMap<ClientId, (Arc<Host>, HintSink)>,
}

/// The fate of requests and answers on their way: so many of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loses: u64,
    pub(crate) loses_answers: u64,
    pub(crate) refuses: u64,
    pub(crate) doubles: u64,
    pub(crate) delays: u64,
    pub(crate) delays_answers: u64,
    pub(crate) loses_hints: u64,
    pub(crate) delays_hints: u64,
    pub(crate) doubles_hints: u64,
}

impl World {
    pub(crate) fn new(plan: Plan, dice: Dice, logs: bool) -> Arc<Self> {
        let start = Instant::now();
        let node = |clock: &_| Node {
            server: Server::new(*clock, plan.flaw),
            away_until: start,
            barred_until: start,
            sinks: BTreeMap::new(),
        };
        // Some flaws need a second set of servers.
        let copies = if plan.flaw == Flaw::SplitBrain { 2 } else { 1 };
        let servers = (0..copies)
            .flat_map(|_| plan.clocks.iter().map(node))
            .collect();
        Arc::new(Self {
            dice,
            register: Register::default(),
            start,
            log: logs.then(Mutex::default),
            calm: AtomicBool::new(false),
            state: Mutex::new(State {
                servers,
                weather: Weather::default(),
                sections: Vec::new(),
                findings: Vec::new(),
                counts: Counts::default(),
                lessened: None,
                late_until: None,
                asleep: Duration::ZERO,
                took: Duration::ZERO,
                together: BTreeMap::new(),
                last_writers: 0,
                names: BTreeMap::new(),
            }),
            plan,
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much time has passed since the run began: also while the machine slept.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed() + self.state().asleep
    }

    /// The run is over, and time with it.
    pub(crate) fn note_end(&self) {
        let took = self.elapsed();
        self.state().took = took;
    }

    pub(crate) fn elapsed_at_end(&self) -> Duration {
        self.state().took
    }

    /// The machine of all processes sleeps for so long; the servers go on.
    pub(crate) fn sleep_machine(&self, time: Duration) {
        self.state().asleep += time;
    }

    /// Nothing goes wrong any more.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.state().weather = Weather::default();
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    pub(crate) fn finds(&self, finding: Finding) {
        self.log(format_args!("FOUND {finding}"));
        self.state().findings.push(finding);
    }

    /// From now on the world cannot keep two holders apart, and holds this at the most.
    pub(crate) fn holds_only(&self, promise: Promise, why: &'static str) {
        let now = self.elapsed();
        let mut state = self.state();
        let known = state.lessened;
        let since = known.map_or(now, |(since, _)| since);
        let lesser = match known {
            Some((_, Promise::Fenced)) => Promise::Fenced,
            _ => promise,
        };
        state.lessened = Some((since, lesser));
        drop(state);
        if known.is_none() {
            self.log(format_args!(
                "from now on no more holds than {promise:?}: {why}"
            ));
        }
    }

    /// Whether two may not be in a section at once, so far.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.state().lessened.is_none()
    }

    /// All processes are held up until now: a holder learns late of the fate of its lease.
    pub(crate) fn all_are_late(&self) {
        self.state().late_until = Some(Instant::now());
    }

    /// Whether a section that began then may have learned late of a loss.
    pub(crate) fn was_late_after(&self, entered: Instant, host: &Host) -> bool {
        let all = self.state().late_until;
        let latest = all.max(host.late_until());
        latest.is_some_and(|latest| entered <= latest)
    }

    pub(crate) fn log(&self, line: fmt::Arguments<'_>) {
        let Some(log) = &self.log else { return };
        let at = self.elapsed();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(log, "{:>11.6} {line}", at.as_secs_f64()).expect("a text can be written to");
    }

    pub(crate) fn take_log(&self) -> String {
        let log = self.log.as_ref().map(Mutex::lock);
        let log = log.map(|log| log.unwrap_or_else(PoisonError::into_inner));
        log.map(|mut log| std::mem::take(&mut *log))
            .unwrap_or_default()
    }

    /// A short name for an owner, the same in each replay.
    pub(crate) fn name(&self, owner: OwnerId) -> String {
        if self.log.is_none() {
            return String::new();
        }
        let names = &mut self.state().names;
        let next = names.len();
        let client = names.entry(owner.client()).or_insert(next);
        let owner = owner.to_string();
        let (_, attempt) = owner.split_once('.').expect("it is written so");
        let attempt: u64 = attempt.parse().expect("it is a number");
        // The upper bits are the round of a quorum.
        let (round, attempt) = (attempt >> 44, attempt & ((1 << 44) - 1));
        if round == 0 {
            format!("c{client}.{attempt}")
        } else {
            format!("c{client}.{attempt}/{round}")
        }
    }

    /// Whether the servers, as they are, keep others than `client` out.
    pub(crate) fn is_founded(&self, key: &str, fence: u64, host: &Host) -> bool {
        let elapsed = self.elapsed();
        let mut state = self.state();
        let Some(client) = host.client() else {
            return false;
        };
        let (nodes, now) = (self.plan.nodes, Instant::now());
        // The nodes of a quorum need not have the same one.
        let fence = (nodes == 1).then_some(fence);
        let for_others = state.servers[host.first_server..][..nodes]
            .iter_mut()
            .filter(|node| node.barred_until <= now)
            .map(|node| node.server.is_held_by(key, client, fence, elapsed))
            .filter(|is_held| !is_held)
            .count();
        for_others <= nodes / 2
    }
}

/// The clocks of a process: tokio's, and one that also counts the time asleep.
#[derive(Clone)]
pub(crate) struct SimClock(pub(crate) Arc<World>);

impl Clock for SimClock {
    fn now(&self) -> Moment {
        Moment {
            monotonic: Instant::now(),
            boot: self.0.elapsed(),
        }
    }
}

impl SimClock {
    /// The time of day that a process sees whose clock is so far ahead.
    pub(crate) fn time_of_day(&self, ahead: Duration) -> SystemTime {
        /// A day of 2026.
        const BEGIN: Duration = Duration::from_secs(1_704_067_200 + 80_000_000);
        UNIX_EPOCH + BEGIN + ahead + self.0.elapsed()
    }
}
