//! A task of a process: wants locks, in every way there is, and does something under them.

use std::{any::Any, panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll, time::Duration};

use dlock::{
    Lease, LockError, LockGuard, LockManager, LockRequest, OnLost, Wait, distributed_lock,
};
use dlock_history::End;
use futures_util::FutureExt;
use tokio::time::{Instant, advance, sleep};

use crate::{
    belief::{Actor, Belief},
    host::Host,
    plan::LONGEST_TTL,
    unsteady::Unsteady,
    verdict::Finding,
    world::World,
};

/// For how long a call may wait when nothing goes wrong any more: what is left of the chaos has to run
/// out first, and all others want the lock as well.
const AT_LAST: Duration = Duration::from_secs(150);

/// One call for a lock, and what is done under it.
struct Call {
    actor: Actor,
    keys: Vec<usize>,
    ttl: Duration,
    wait: Wait,
    renew: bool,
    on_lost: OnLost,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    hold: Duration,
    step: Duration,
    panics: bool,
}

/// The payload of panics that are wanted.
struct OnPurpose;

/// The life of a task: during the chaos whatever the seed wants, and at last a call that has to succeed.
pub(crate) async fn live(world: Arc<World>, host: Arc<Host>, task: u32) {
    while !world.is_calm() {
        sleep(world.dice.time(Duration::from_secs(1))).await;
        let Some(manager) = host.manager() else {
            return;
        };
        let polls = world.dice.chance(250).then(|| world.dice.below(12));
        let call = Call::new(&world, &host, task);
        call.actor
            .log(format_args!("wants {call:?}, {polls:?} polls"));
        let way = world.dice.below(6);
        let called = Unsteady::new(&world, &host, polls, call.by(manager, way));
        match AssertUnwindSafe(called).catch_unwind().await {
            Ok(Some(Err(LockError::Closed { .. }))) => return,
            Ok(outcome) => {
                world.count(|counts| counts.event(outcome_name(outcome.as_ref())));
            }
            Err(payload) => is_wanted(&world, &*payload),
        }
    }
    let Some(manager) = host.manager() else {
        return;
    };
    let call = Call::last(&world, &host, task);
    call.actor.log(format_args!("wants at last {call:?}"));
    let request = call.request(&manager);
    let done = request.run(async |lease| call.body(lease).await).await;
    // A process that shuts down accepts no new calls.
    if let Err(error) = done
        && !matches!(error, LockError::Closed { .. })
    {
        let (host, end) = (host.number, world.elapsed());
        let error = kind_of(&error);
        world.finds(Finding::Stuck(format!(
            "the last call of p{host}.t{task}: {error} at {end:?}"
        )));
    }
}

fn is_wanted(world: &World, payload: &(dyn Any + Send)) {
    // Others are found by the hook for panics.
    if payload.is::<OnPurpose>() {
        world.count(|counts| counts.event("body panicked"));
    }
}

fn outcome_name(outcome: Option<&Result<(), LockError>>) -> &'static str {
    match outcome {
        None => "call dropped",
        Some(Ok(())) => "call done",
        Some(Err(error)) => kind_of(error),
    }
}

/// Without the texts, in which the machine is named.
fn kind_of(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "call busy",
        LockError::Unavailable { .. } => "call unavailable",
        LockError::Lost { .. } => "call lost",
        LockError::Closed { .. } => "call closed",
        _ => "call wrong",
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("keys", &self.keys)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("renew", &self.renew)
            .field("on_lost", &self.on_lost)
            .field("max_hold", &self.max_hold)
            .field("min_hold", &self.min_hold)
            .field("hold", &self.hold)
            .field("step", &self.step)
            .field("panics", &self.panics)
            .finish_non_exhaustive()
    }
}

impl Call {
    fn new(world: &Arc<World>, host: &Arc<Host>, task: u32) -> Self {
        let (dice, plan) = (&world.dice, &world.plan);
        let ttl = if plan.bad_hints {
            dice.pick(&[100, 300, 300, 600, 1_000, 3_000])
        } else {
            dice.pick(&[100, 300, 1_000, 1_000, 3_000, 3_000, 10_000, 20_000])
        };
        // A node of a quorum has a quarter of the TTL to answer.
        let ttl = Duration::from_millis(ttl).max(16 * plan.distance);
        debug_assert!(ttl <= LONGEST_TTL, "what is left is waited for that long");
        let first = dice.index(plan.keys);
        let mut keys = vec![first];
        while keys.len() < plan.keys && dice.chance(150) {
            let next = (keys[keys.len() - 1] + 1) % plan.keys;
            keys.push(next);
        }
        let hold = match dice.below(4) {
            0 => Duration::ZERO,
            1 => dice.time(Duration::from_millis(30)),
            2 => dice.time(Duration::from_secs(2)),
            _ => dice.time(2 * ttl),
        };
        let renew = dice.chance(750);
        let max_hold = dice.chance(150).then(|| dice.time(2 * ttl));
        // That of the first of several keys begins before the last is there.
        let least = match keys[..] {
            [_] => Duration::from_millis(1),
            _ => 32 * plan.distance + Duration::from_millis(50),
        };
        let max_hold = max_hold.map(|it| it.max(least));
        let longest = max_hold.unwrap_or(Duration::from_secs(4));
        let longest = if renew { longest } else { longest.min(ttl) };
        let min_hold = dice.chance(100).then(|| dice.time(longest));
        Self {
            actor: actor(world, host, task),
            keys,
            ttl,
            wait: match dice.below(6) {
                0 => Wait::Never,
                1 => Wait::Forever,
                2 => Wait::For(dice.time(Duration::from_millis(500))),
                _ => Wait::For(dice.time(Duration::from_secs(20))),
            },
            renew,
            on_lost: if dice.chance(800) {
                OnLost::Stop
            } else {
                OnLost::Finish
            },
            max_hold,
            min_hold: min_hold.filter(|it| !it.is_zero()),
            hold,
            step: (hold / 4).min(Duration::from_millis(200)),
            panics: dice.chance(30),
        }
    }

    /// One that nothing is in the way of any more.
    fn last(world: &Arc<World>, host: &Arc<Host>, task: u32) -> Self {
        let dice = &world.dice;
        Self {
            actor: actor(world, host, task),
            keys: vec![dice.index(world.plan.keys)],
            ttl: Duration::from_secs(5),
            wait: Wait::For(AT_LAST),
            renew: true,
            on_lost: OnLost::Stop,
            max_hold: None,
            min_hold: None,
            hold: Duration::from_millis(5),
            step: Duration::from_millis(5),
            panics: false,
        }
    }

    fn request(&self, manager: &LockManager) -> LockRequest {
        let keys = self.keys.iter().map(|key| format!("k{key}"));
        let mut request = match self.keys[..] {
            [key] => manager.lock(format!("k{key}")),
            _ => manager.lock_all(keys),
        };
        request = request
            .ttl(self.ttl)
            .wait(self.wait)
            .renew(self.renew)
            .on_lost(self.on_lost);
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(min_hold) = self.min_hold {
            request = request.min_hold(min_hold);
        }
        request
    }

    /// Takes the lock in one of several ways.
    async fn by(mut self, manager: LockManager, way: u64) -> Result<(), LockError> {
        let request = self.request(&manager);
        match way {
            0 | 1 => request.run(async |lease| self.body(lease).await).await,
            2 => {
                let guard = request.acquire().await?;
                guard.run_while_held(self.body(&guard)).await?;
                guard.release().await
            }
            3 if self.keys.len() == 1 => {
                let (key, ttl) = (self.keys[0], self.ttl);
                let wait = match self.wait {
                    Wait::For(wait) => wait,
                    _ => ttl,
                };
                self.on_lost = OnLost::Stop;
                if self.actor.world.dice.chance(500) {
                    annotated(manager, key, ttl, wait, &self).await
                } else {
                    detached(manager, key, ttl, wait, self).await
                }
            }
            4 => match request.try_acquire().await? {
                Some(guard) => self.with(guard).await,
                None => Ok(()),
            },
            _ => {
                let guard = request.acquire().await?;
                self.with(guard).await
            }
        }
    }

    /// The body of a function that holds a lock.
    async fn body(&self, lease: &Lease) {
        let actor = Actor {
            is_watched: self.on_lost == OnLost::Stop,
            ..self.actor.clone()
        };
        let mut belief = actor.enters(lease);
        let until = Instant::now() + self.hold;
        loop {
            let goes_on = belief.act(lease);
            if !goes_on && self.on_lost == OnLost::Stop {
                let what = belief.describe("a body that is to be cancelled");
                self.actor.world.finds(Finding::PolledInVain(what));
            }
            if !self.goes_on(until) {
                break;
            }
            if self.blocks() {
                let time = self.actor.world.dice.time(2 * self.ttl);
                block(&self.actor.world, time);
                if self.actor.world.dice.chance(500) {
                    // It is not looked at in between.
                    continue_after_block(&mut belief, lease);
                }
            }
            sleep(self.step.max(Duration::from_micros(100))).await;
        }
        belief.end(End::Finished);
    }

    /// The same with a guard that nothing watches.
    async fn with(&self, guard: LockGuard) -> Result<(), LockError> {
        let mut belief = self.actor.enters(&guard);
        let dice = &self.actor.world.dice;
        let until = Instant::now() + self.hold;
        while belief.act(&guard) && self.goes_on(until) {
            if self.actor.world.plan.careless && dice.chance(100) {
                sleep(dice.time(2 * self.ttl)).await;
                belief.act_carelessly(&guard);
            }
            if dice.chance(100) {
                let lost = guard.lost();
                let ring = tokio::time::timeout(self.step, lost);
                if ring.await.is_ok() {
                    belief.end(End::Lost);
                }
            } else {
                sleep(self.step.max(Duration::from_micros(100))).await;
            }
        }
        belief.end(End::Finished);
        drop(belief);
        if dice.chance(300) {
            drop(guard);
            return Ok(());
        }
        guard.release().await
    }

    fn goes_on(&self, until: Instant) -> bool {
        let world = &self.actor.world;
        if self.panics && world.dice.chance(300) {
            std::panic::resume_unwind(Box::new(OnPurpose));
        }
        Instant::now() < until && !world.is_calm()
    }

    fn blocks(&self) -> bool {
        let world = &self.actor.world;
        world.plan.blocks && !world.is_calm() && world.dice.chance(30)
    }
}

fn actor(world: &Arc<World>, host: &Arc<Host>, task: u32) -> Actor {
    Actor {
        world: world.clone(),
        host: host.clone(),
        task,
        asked: world.elapsed(),
        is_watched: false,
    }
}

/// Time goes on, and nothing else of this machine does.
fn block(world: &World, time: Duration) {
    world.log(format_args!("everything is blocked for {time:?}"));
    world.count(|counts| counts.event("blocked"));
    // The first poll moves the clock; the second would let others run.
    let mut advance = pin!(advance(time));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let _: Poll<()> = advance.as_mut().poll(&mut context);
    world.all_are_late();
}

/// The end of a body after it has blocked, before its next await.
fn continue_after_block(belief: &mut Belief, lease: &Lease) {
    if lease.is_lost() {
        belief.actor().log(format_args!("has blocked for too long"));
        belief.end(End::Lost);
    }
}

#[distributed_lock(key = "k<key>", ttl = ttl, wait = wait, manager = manager, lease = lease)]
async fn annotated(
    manager: LockManager,
    key: usize,
    ttl: Duration,
    wait: Duration,
    call: &Call,
) -> Result<(), LockError> {
    call.body(lease).await;
    Ok(())
}

#[distributed_lock(
    key = "k<key>", ttl = ttl, wait = wait, manager = manager, lease = lease, on_cancel = detach
)]
async fn detached(
    manager: LockManager,
    key: usize,
    ttl: Duration,
    wait: Duration,
    call: Call,
) -> Result<(), LockError> {
    call.body(lease).await;
    Ok(())
}
