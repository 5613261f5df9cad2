//! One run, from the seed to the verdict.

use std::{cell::RefCell, panic, sync::Arc, sync::Once, time::Duration};

use dlock::{LockManager, ShutdownReport, store::quorum::Quorum};
use dlock_history::{History, Promise};
use tokio::{
    runtime::Builder,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    dice::Dice,
    flaw::Flaw,
    host::Host,
    link::Link,
    nemesis,
    plan::{LONGEST_JUMP, LONGEST_TTL, LONGEST_WAY, Plan, Wish},
    task::{self, in_mode},
    unsteady::Unsteady,
    verdict::{Finding, Report},
    world::{SimClock, World},
};

/// Long enough for everything that may still be under way, or be kept by a server.
const RUNS_OUT: Duration = Duration::from_secs(
    LONGEST_TTL.as_secs() + LONGEST_JUMP.as_secs() + 2 * LONGEST_WAY.as_secs() + 15,
);

/// For how long all tasks may take to come to their end.
const AT_LAST: Duration = Duration::from_secs(200);

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs the world that follows from `seed`, which keeps its promises but for `flaw`.
///
/// # Panics
///
/// Only if this program is wrong: a panic of what runs in it is among the findings.
#[must_use]
pub fn run(seed: u64, flaw: Flaw, logs: bool) -> Report {
    listen_for_panics();
    PANICS.take();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime needs a thread, and this is one");
    let dice = Dice::new(seed);
    let more = Dice::new(!seed);
    let plan = Plan::new(&dice, &more, flaw);
    let world = runtime.block_on(async {
        let world = World::new(plan, dice, logs);
        world.log(format_args!("seed {seed}: {:#?}", world.plan));
        let left = play(&world).await;
        if left > 0 {
            world.finds(Finding::Left(format!("{left} tasks of the runtime")));
        }
        world
    });
    drop(runtime);
    for panic in PANICS.take() {
        world.finds(Finding::Panicked(panic));
    }
    report(seed, &world)
}

/// Panics of tasks that are not joined are findings as well.
fn listen_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_in_a_run = tokio::runtime::Handle::try_current().is_ok();
            if !is_in_a_run {
                return before(info);
            }
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
        }));
    });
}

fn report(seed: u64, world: &World) -> Report {
    let (history, lessened, mut findings, mut counts) = {
        let mut state = world.state();
        let history = History {
            sections: std::mem::take(&mut state.sections),
            writes: world.register.writes(),
            ..History::default()
        };
        let findings = std::mem::take(&mut state.findings);
        (history, state.lessened, findings, state.counts.clone())
    };
    let promise = |at: Duration| match lessened {
        Some((since, promise)) if at >= since => promise,
        _ => Promise::Exclusive,
    };
    let mut violations = history.judge_by(promise, &[]);
    violations.extend(history.judge_writers());
    let violations = violations.into_iter();
    findings.extend(violations.map(|it| Finding::History(Box::new(it))));
    counts.runs = 1;
    counts.exclusive = u64::from(lessened.is_none());
    counts.sections = u64::try_from(history.sections.len()).expect("it is a number of things");
    counts.time = world.elapsed_at_end();
    Report {
        seed,
        findings,
        counts,
        log: world.take_log(),
    }
}

/// How many tasks of the runtime are left in the end.
async fn play(world: &Arc<World>) -> usize {
    let mut hosts = Hosts::default();
    for _ in 0..world.plan.processes {
        hosts.start(world);
    }
    let mut hosts = nemesis::rage(world.clone(), hosts).await;
    world.log(format_args!("nothing goes wrong any more"));
    world.calm_down();
    hosts.heal(world);
    hosts.come_to_their_end(world).await;
    // Leases that are not released expire.
    sleep(RUNS_OUT).await;
    hosts.leave_nothing(world, "when all has run out");
    hosts.use_all_keys(world).await;
    hosts.end(world).await;
    // The renewer, and what carries requests, notice that they are not needed any more.
    sleep(RUNS_OUT).await;
    world.note_end();
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// Every way in which keys are wanted in this world.
fn wishes(world: &World) -> &'static [Wish] {
    match world.plan.crowd {
        None => &[Wish::Alone],
        Some(_) if world.plan.nodes > 1 => &[Wish::Alone, Wish::Together],
        Some(_) => &[Wish::Alone, Wish::Together, Wish::Permit],
    }
}

/// All processes that there have been.
#[derive(Default)]
pub(crate) struct Hosts {
    all: Vec<Process>,
    /// By how much clocks were set back, in all.
    pub(crate) set_back: Duration,
}

struct Process {
    host: Arc<Host>,
    links: Vec<Link>,
    tasks: Vec<JoinHandle<()>>,
    /// It is shutting down.
    is_leaving: bool,
}

impl Hosts {
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, host: usize) -> &Host {
        &self.all[host].host
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Process)> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, it)| !it.is_leaving && !it.host.is_dead())
    }

    /// One that lives.
    pub(crate) fn any(&self, dice: &Dice) -> usize {
        let living: Vec<_> = self.living().map(|(number, _)| number).collect();
        dice.pick(&living)
    }

    /// Another process, with its tasks.
    pub(crate) fn start(&mut self, world: &Arc<World>) {
        let (plan, dice) = (&world.plan, &world.dice);
        let number = self.all.len();
        let is_apart = plan.flaw == Flaw::SplitBrain && number % 2 == 1;
        let first = if is_apart { plan.nodes } else { 0 };
        let number = u32::try_from(number).expect("there are few processes");
        let host = Arc::new(Host::new(number, first, 2 * plan.nodes));
        let links: Vec<_> = (first..first + plan.nodes)
            .map(|node| Link::new(world.clone(), host.clone(), node))
            .collect();
        let clock = SimClock(world.clone());
        let builder = LockManager::builder()
            .application(format!("p{number}"))
            .clock(clock.clone())
            // Its time would be the machine's.
            .renewal_thread(false)
            .random(dice.fork())
            .handover(dice.chance(800))
            .response_timeout(Duration::from_millis(
                dice.pick(&[200, 1_000, 1_000, 3_000]),
            ));
        let manager = if let [link] = &links[..] {
            builder.build_with_store(link.clone())
        } else {
            // Servers that have forgotten count by the clocks of their clients.
            let ahead = match plan.amnesia {
                crate::plan::Amnesia::No => dice.time(Duration::from_secs(60)),
                _ => Duration::ZERO,
            };
            let quorum = Quorum::of(links.clone()).expect("three are enough");
            let quorum = quorum
                .replayable(move || clock.time_of_day(ahead), dice.fork())
                .node_timeout(Duration::from_millis(dice.pick(&[100, 500, 500])));
            builder.build_with_store(quorum)
        };
        host.has(manager.expect("the options are valid"));
        world.log(format_args!("p{number} starts"));
        let mut tasks = Vec::new();
        for task in 0..=dice.below(plan.most_tasks) {
            let task = u32::try_from(task).expect("there are few tasks");
            let life = tokio::spawn(task::live(world.clone(), host.clone(), task));
            host.runs(life.abort_handle());
            tasks.push(life);
        }
        self.all.push(Process {
            host,
            links,
            tasks,
            is_leaving: false,
        });
    }

    pub(crate) fn reconnect(&self, host: usize, node: usize) {
        let process = &self.all[host];
        if !process.host.is_dead()
            && let Some(link) = process.links.get(node)
        {
            link.reconnect();
        }
    }

    pub(crate) fn kill(&mut self, host: usize) {
        let process = &mut self.all[host];
        process.host.kill();
        process.links.clear();
    }

    /// The process ends as it should, in a task of its own.
    pub(crate) fn shut_down(&mut self, world: &Arc<World>, host: usize, limit: Duration) {
        let process = &mut self.all[host];
        process.is_leaving = true;
        let (world, host) = (world.clone(), process.host.clone());
        process.tasks.push(tokio::spawn(async move {
            let Some(manager) = host.manager() else {
                return;
            };
            let outcome = manager.shutdown(limit).await;
            world.log(format_args!("p{} has shut down: {outcome:?}", host.number));
        }));
    }

    fn heal(&self, world: &World) {
        let now = Instant::now();
        for node in &mut world.state().servers {
            node.away_until = now.max(node.barred_until);
        }
        for process in &self.all {
            process.host.heal();
        }
        for host in 0..self.all.len() {
            for node in 0..self.all[host].links.len() {
                self.reconnect(host, node);
            }
        }
    }

    /// Every task ends, and no process has anything left.
    async fn come_to_their_end(&mut self, world: &World) {
        let end = Instant::now() + AT_LAST;
        for process in &mut self.all {
            for task in process.tasks.drain(..) {
                let handle = task.abort_handle();
                if tokio::time::timeout_at(end, task).await.is_err() {
                    let number = process.host.number;
                    world.finds(Finding::Stuck(format!("a task of p{number}")));
                    handle.abort();
                }
            }
        }
        self.become_idle(world).await;
    }

    /// Waits for all releases in the background.
    async fn become_idle(&self, world: &World) {
        for process in &self.all {
            let Some(manager) = process.host.manager() else {
                continue;
            };
            let idle = async {
                while manager.active_keys() > 0 {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            if timeout(RUNS_OUT, idle).await.is_err() {
                let (number, active) = (process.host.number, manager.active_keys());
                world.finds(Finding::Left(format!("{active} keys by p{number}")));
            }
        }
    }

    #[expect(clippy::unused_self, reason = "it is about them")]
    fn leave_nothing(&self, world: &World, when: &str) {
        let elapsed = world.elapsed();
        let mut left = Vec::new();
        for (number, node) in world.state().servers.iter_mut().enumerate() {
            let here = node.server.left(elapsed);
            left.extend(here.into_iter().map(|(key, owner)| (number, key, owner)));
        }
        for (number, key, owner) in left {
            let owner = world.name(owner);
            world.finds(Finding::Left(format!(
                "{key} of {owner} at s{number} {when}"
            )));
        }
    }

    /// Every process has every key once more. What it gives back is free, without waiting for a TTL.
    async fn use_all_keys(&self, world: &Arc<World>) {
        for (number, process) in self.living() {
            let Some(manager) = process.host.manager() else {
                continue;
            };
            for key in 0..world.plan.keys {
                for wish in wishes(world) {
                    let request = manager.lock(format!("k{key}")).ttl(LONGEST_TTL);
                    let request = in_mode(world, request, *wish);
                    let request = request.wait(Duration::from_secs(5));
                    if request.run(async |_| ()).await.is_err() {
                        world.finds(Finding::Stuck(format!(
                            "p{number} and a k{key} that is free"
                        )));
                    }
                }
            }
        }
        self.drop_calls(world).await;
        self.become_idle(world).await;
        // The last servers of a quorum are informed in the background.
        sleep(Duration::from_secs(2)).await;
        self.leave_nothing(world, "although it was given back");
    }

    /// Calls are dropped at each of their first polls; their locks are released as well.
    async fn drop_calls(&self, world: &Arc<World>) {
        for (_, process) in self.living() {
            let Some(manager) = process.host.manager() else {
                continue;
            };
            for wish in wishes(world) {
                for polls in 0..6 {
                    let request = manager.lock("k0").ttl(LONGEST_TTL);
                    let request = in_mode(world, request, *wish);
                    let call = request.run(async |_| sleep(Duration::from_millis(50)).await);
                    drop(Unsteady::new(world, &process.host, Some(polls), call).await);
                }
            }
        }
    }

    /// All managers end, and nothing holds them any more.
    async fn end(&mut self, world: &World) {
        for process in &mut self.all {
            let (host, number) = (&process.host, process.host.number);
            if let Some(manager) = host.manager() {
                let outcome = manager.shutdown(Duration::from_secs(5)).await;
                if outcome != ShutdownReport::default() {
                    let finding = format!("p{number} by its shutdown: {outcome:?}");
                    world.finds(Finding::Left(finding));
                }
            }
            host.drop_manager();
            process.links.clear();
        }
        // The renewer is there for a moment.
        sleep(Duration::from_secs(10)).await;
        let sinks: Vec<_> = {
            let mut state = world.state();
            let nodes = state.servers.iter_mut();
            nodes
                .flat_map(|node| std::mem::take(&mut node.sinks))
                .collect()
        };
        for (_, (host, sink)) in sinks {
            if sink.look_again() {
                world.finds(Finding::Left(format!("the manager of p{}", host.number)));
            }
        }
    }
}
