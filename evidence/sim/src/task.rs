//! A task of a process: wants locks, in every way there is, and does something under them.

use std::{
    any::Any, collections::BTreeMap, panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll,
    time::Duration,
};

use dlock::{
    Lease, LockError, LockGuard, LockManager, LockRequest, OnLost, Wait, distributed_lock,
};
use dlock_history::{End, Mode};
use futures_util::FutureExt;
use tokio::time::{Instant, advance, sleep};

use crate::{
    belief::{Actor, Belief},
    host::Host,
    plan::{Crowd, LONGEST_TTL, Wish},
    unsteady::Unsteady,
    verdict::Finding,
    world::World,
};

/// For how long a call may wait when nothing goes wrong any more: what is left of the chaos has to run
/// out first, and all others want the lock as well.
const AT_LAST: Duration = Duration::from_secs(150);

/// For how long one who shares a key in the end stays, and pauses at the most before it comes again.
const STAYS: Duration = Duration::from_millis(300);
const PAUSES: Duration = Duration::from_millis(50);

/// One call for a lock, and what is done under it.
struct Call {
    actor: Actor,
    keys: Vec<usize>,
    wish: Wish,
    /// How many of the keys, counted from the last, are shared whatever the wish.
    also_shared: usize,
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
    let wish = any_wish(&world);
    let writer = (world.plan.crowd.is_some() && wish == Wish::Alone).then(|| Writer::new(&world));
    let pause = world.plan.crowd.as_ref().map(|crowd| crowd.pause);
    while !world.is_calm() {
        sleep(world.dice.time(pause.unwrap_or(Duration::from_secs(1)))).await;
        let Some(manager) = host.manager() else {
            return;
        };
        let polls = world.dice.chance(250).then(|| world.dice.below(12));
        let mut call = Call::new(&world, &host, task);
        call.actor
            .log(format_args!("wants {call:?}, {polls:?} polls"));
        let way = world.dice.below(6);
        call.actor.wait = call.wait_by(way);
        let actor = call.actor.clone();
        let called = Unsteady::new(&world, &host, polls, call.by(manager, way));
        match AssertUnwindSafe(called).catch_unwind().await {
            Ok(Some(Err(LockError::Closed { .. }))) => return,
            Ok(outcome) => {
                if let Some(Err(LockError::Busy { .. } | LockError::Unavailable { .. })) = &outcome
                {
                    actor.is_in_time("is refused");
                }
                world.count(|counts| counts.event(outcome_name(outcome.as_ref())));
            }
            Err(payload) => is_wanted(&world, &*payload),
        }
    }
    let Some(manager) = host.manager() else {
        return;
    };
    let call = Call::last(&world, &host, task, wish);
    call.actor.log(format_args!("wants at last {call:?}"));
    let request = call.request(&manager);
    let done = request.run(async |lease| call.body(lease).await).await;
    is_done_at_last(&world, &host, task, &done);
    drop((writer, manager));
    if wish != Wish::Alone {
        go_on_sharing(&world, &host, task, wish).await;
    }
}

/// A process that shuts down accepts no new calls; otherwise the call succeeds.
fn is_done_at_last(world: &World, host: &Host, task: u32, done: &Result<(), LockError>) {
    if let Err(error) = done
        && !matches!(error, LockError::Closed { .. })
    {
        let (host, end) = (host.number, world.elapsed());
        let error = kind_of(error);
        world.finds(Finding::Stuck(format!(
            "the last call of p{host}.t{task}: {error} at {end:?}"
        )));
    }
}

/// As long as others want a key exclusively, those that share keys come again and again: they keep nobody out.
async fn go_on_sharing(world: &Arc<World>, host: &Arc<Host>, task: u32, wish: Wish) {
    while world.state().last_writers > 0 {
        sleep(world.dice.time(PAUSES)).await;
        let Some(manager) = host.manager() else {
            return;
        };
        let call = Call::last(world, host, task, wish);
        let request = call.request(&manager);
        drop(manager);
        let done = request.run(async |lease| {
            let mut belief = call.actor.enters(lease);
            belief.act(lease);
            sleep(STAYS).await;
            belief.act(lease);
            belief.end(End::Finished);
        });
        let done = done.await;
        is_done_at_last(world, host, task, &done);
        if done.is_err() {
            return;
        }
    }
}

/// A task whose last call is exclusive, until that is over.
struct Writer(Arc<World>);

impl Writer {
    fn new(world: &Arc<World>) -> Self {
        world.state().last_writers += 1;
        Self(world.clone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.state().last_writers -= 1;
    }
}

fn any_wish(world: &World) -> Wish {
    match &world.plan.crowd {
        Some(crowd) => world.dice.pick(crowd.modes),
        None => Wish::Alone,
    }
}

/// The request in one of the modes of a world.
pub(crate) fn in_mode(world: &World, request: LockRequest, wish: Wish) -> LockRequest {
    match wish {
        Wish::Alone => request,
        Wish::Together => request.shared(),
        Wish::Permit => request.permits(permits(world)),
    }
}

fn permits(world: &World) -> u32 {
    world.plan.crowd.as_ref().map_or(1, |crowd| crowd.permits)
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
            .field("wish", &self.wish)
            .field("also_shared", &self.also_shared)
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
        let ttl = match &plan.crowd {
            Some(Crowd { ttls, .. }) => dice.pick(ttls),
            None if plan.bad_hints => dice.pick(&[100, 300, 300, 600, 1_000, 3_000]),
            None => dice.pick(&[100, 300, 1_000, 1_000, 3_000, 3_000, 10_000, 20_000]),
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
        let wait = match dice.below(6) {
            0 => Wait::Never,
            1 => Wait::Forever,
            2 => Wait::For(dice.time(Duration::from_millis(500))),
            _ => Wait::For(dice.time(Duration::from_secs(20))),
        };
        let wish = any_wish(world);
        let mut also_shared = 0;
        if plan.crowd.is_some() && dice.chance(400) {
            also_shared = dice.index(keys.len());
        }
        Self {
            actor: Actor {
                modes: modes(world, &keys, wish, also_shared),
                ..actor(world, host, task, wait)
            },
            keys,
            wish,
            also_shared,
            ttl,
            wait,
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
    fn last(world: &Arc<World>, host: &Arc<Host>, task: u32, wish: Wish) -> Self {
        let dice = &world.dice;
        let keys = vec![dice.index(world.plan.keys)];
        let wait = Wait::For(AT_LAST);
        Self {
            actor: Actor {
                modes: modes(world, &keys, wish, 0),
                ..actor(world, host, task, wait)
            },
            keys,
            wish,
            also_shared: 0,
            ttl: Duration::from_secs(5),
            wait,
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
        let (own, shared) = self.keys.split_at(self.keys.len() - self.also_shared);
        let name = |key: &usize| format!("k{key}");
        let mut request = match own {
            [key] => manager.lock(name(key)),
            _ => manager.lock_all(own.iter().map(name)),
        };
        request = in_mode(&self.actor.world, request, self.wish);
        for key in shared {
            request = request.also_shared(name(key));
        }
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

    /// An annotated function names a time.
    fn wait_by(&self, way: u64) -> Wait {
        match (way, self.wait) {
            (3, Wait::Never | Wait::Forever) if self.is_annotated() => Wait::For(self.ttl),
            _ => self.wait,
        }
    }

    fn is_annotated(&self) -> bool {
        self.wish == Wish::Alone && self.keys.len() == 1
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
            3 if self.wish != Wish::Alone => {
                let detached = request
                    .run_detached(move |lease| Box::pin(async move { self.body(lease).await }));
                detached.await
            }
            3 if self.is_annotated() => {
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

fn actor(world: &Arc<World>, host: &Arc<Host>, task: u32, wait: Wait) -> Actor {
    Actor {
        world: world.clone(),
        host: host.clone(),
        task,
        asked: world.elapsed(),
        began: Instant::now(),
        wait,
        is_watched: false,
        modes: Arc::default(),
    }
}

/// How each of the keys is wanted, for the judge.
fn modes(
    world: &World,
    keys: &[usize],
    wish: Wish,
    also_shared: usize,
) -> Arc<BTreeMap<String, Mode>> {
    let own = keys.len() - also_shared;
    // In a quorum each has a token of its own.
    let shared = match world.plan.nodes {
        1 => Mode::Shared,
        _ => Mode::SharedApart,
    };
    let modes = keys.iter().enumerate().map(|(place, key)| {
        let mode = match wish {
            _ if place >= own => shared,
            Wish::Alone => Mode::Exclusive,
            Wish::Together => shared,
            Wish::Permit => Mode::Permits(permits(world)),
        };
        (format!("k{key}"), mode)
    });
    Arc::new(modes.collect())
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
