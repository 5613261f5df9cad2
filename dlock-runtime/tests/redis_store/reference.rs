//! Redis answers as the store in memory does, whatever is requested and in whatever order.
//!
//! Both get the same requests at the same times, by clocks that the test moves. Their answers and their hints have to be equal, and
//! what Redis stores has to have its form after each request. The sequences are drawn, and are the same in each run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlock_runtime::{
    LockKey, LockMode,
    store::{
        AcquireOutcome, Hint, HintReceiver, HintSink, Holder, LockStore, OwnerId, Proposal, Queue,
        QuorumNode, RaiseRequest, ReleaseRequest, RenewRequest, memory::MemoryStore,
        redis::RedisStore,
    },
};
use dlock_testkit::{Proxy, RedisServer};
use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;

use crate::{DEADLINE, connect, key, owner, run, take};

/// All times are whole seconds. A sequence that takes less than one in reality shows no moment in which something ends.
const LIMIT: Duration = Duration::from_millis(700);

/// A machine that stands still so often is too slow for this test.
const TRIES: usize = 100;

/// Ahead of every clock: the fences of Redis then grow by one, as those of the store in memory do.
const COUNTED: u64 = 1 << 50;

/// As long as `PUBLISH`, and the only name by which the server knows it.
const PUBLISH: &str = "PUBLISX";

/// An owner, and how it asks. All its requests have one mode, one TTL and one wish.
#[derive(Debug)]
struct Asker {
    owner: OwnerId,
    mode: LockMode,
    wish: Wish,
    ttl: Duration,
    label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Once,
    Lease,
    Notice,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// With the least fence of a quorum, if it is not 0.
    Ask {
        who: usize,
        least: u64,
    },
    /// With the TTL of the asker, or for one second as the rest of a `min_hold`.
    Renew {
        who: usize,
        is_rest: bool,
        is_named: bool,
    },
    Raise {
        who: usize,
        from: u64,
        to: u64,
    },
    Release(usize),
    /// So many seconds.
    Pass(u64),
}

impl Asker {
    fn new(mode: LockMode, wish: Wish, seconds: u64) -> Self {
        let owner = owner();
        Self {
            owner,
            mode,
            wish,
            ttl: Duration::from_secs(seconds),
            label: format!("{}@host/{seconds}", owner.client()),
        }
    }
}

/// Numbers below a bound, which follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        let length = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.below(length)).unwrap()]
    }
}

/// Five owners, and what they do. Those of a node of a quorum wait for notices, and those of a store for leases.
fn drawn(seed: u64) -> (Vec<Asker>, Vec<Step>) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let wishes: &[Wish] = match seed % 3 {
        0 => &[Wish::Once, Wish::Lease, Wish::Lease, Wish::Lease],
        1 => &[Wish::Once, Wish::Notice, Wish::Notice, Wish::Notice],
        _ => &[Wish::Once, Wish::Lease, Wish::Lease, Wish::Notice],
    };
    let modes = [
        LockMode::Exclusive,
        LockMode::Exclusive,
        LockMode::Shared,
        LockMode::Shared,
        LockMode::Permits(2),
        LockMode::Permits(3),
    ];
    let askers: Vec<_> = (0..5)
        .map(|_| {
            let (mode, wish) = (numbers.of(&modes), numbers.of(wishes));
            Asker::new(mode, wish, numbers.of(&[2, 5, 20]))
        })
        .collect();
    let mut steps = Vec::new();
    // A waiter that counts as dead may have lost its place or not, which no rule says: it leaves first.
    let (mut now, mut asked) = (0, [None; 5]);
    for _ in 0..40 {
        let who = usize::try_from(numbers.below(5)).unwrap();
        let step = match numbers.below(20) {
            0..=8 => {
                let is_node = seed % 3 == 1 && numbers.below(4) == 0;
                let least = if is_node { numbers.below(60) } else { 0 };
                let alive_for = if askers[who].wish == Wish::Notice {
                    1
                } else {
                    3
                };
                if asked[who].is_some_and(|it| it + alive_for <= now) {
                    steps.push(Step::Release(who));
                }
                asked[who] = Some(now);
                Step::Ask { who, least }
            }
            9..=11 => Step::Renew {
                who,
                is_rest: numbers.below(4) == 0,
                is_named: numbers.below(3) > 0,
            },
            12 => {
                let from = numbers.below(12);
                let to = from + numbers.below(6);
                Step::Raise { who, from, to }
            }
            13..=16 => Step::Release(who),
            _ => {
                let seconds = numbers.of(&[1, 1, 1, 2, 4, 10]);
                now += seconds;
                Step::Pass(seconds)
            }
        };
        steps.push(step);
    }
    (askers, steps)
}

/// What is seen of a store: its fences are counted from the first one.
struct Seen {
    before: u64,
    lines: Vec<String>,
}

impl Seen {
    fn fence(&self, fence: u64) -> u64 {
        fence.saturating_sub(self.before)
    }

    async fn step(&mut self, store: &impl QuorumNode, key: &LockKey, askers: &[Asker], step: Step) {
        let answer = match step {
            Step::Ask { who, least } => {
                let Asker {
                    owner,
                    mode,
                    wish,
                    ttl,
                    label,
                } = &askers[who];
                let request = crate::request(key, *owner).mode(*mode).ttl(*ttl);
                let request = request.label(label).function("shop::settle");
                let answer = if least > 0 || *wish == Wish::Notice {
                    let least = if least > 0 { self.before + least } else { 0 };
                    let proposal = Proposal::new(request, least);
                    store.propose(proposal.notice(*wish == Wish::Notice)).await
                } else {
                    let queue = if *wish == Wish::Lease {
                        Queue::ForLease
                    } else {
                        Queue::No
                    };
                    store.acquire(request.queue(queue)).await
                };
                match answer.unwrap() {
                    AcquireOutcome::Granted { fence, .. } => format!("has {}", self.fence(fence)),
                    AcquireOutcome::Busy(holder) => self.holder(&holder, *mode),
                    other => panic!("{other:?}"),
                }
            }
            Step::Renew {
                who,
                is_rest,
                is_named,
            } => {
                let Asker {
                    owner,
                    mode,
                    ttl,
                    label,
                    ..
                } = &askers[who];
                let ttl = if is_rest {
                    Duration::from_secs(1)
                } else {
                    *ttl
                };
                let request = RenewRequest::new(key, *owner, ttl).mode(*mode);
                let label = if is_named { label } else { "" };
                format!("{:?}", store.renew_one(request.label(label)).await.unwrap())
            }
            Step::Raise { who, from, to } => {
                let [from, to] = [from, to].map(|it| self.before + it);
                let request = RaiseRequest::new(key, askers[who].owner, from, to);
                format!("{:?}", store.raise(request).await.unwrap())
            }
            Step::Release(who) => {
                let request = ReleaseRequest::new(key, askers[who].owner);
                let released = store.release(request.mode(askers[who].mode)).await;
                format!("{:?}", released.unwrap())
            }
            Step::Pass(_) => return,
        };
        self.lines.push(format!("{step:?}: {answer}"));
    }

    fn holder(&self, holder: &Holder, mode: LockMode) -> String {
        let Holder {
            position,
            others,
            never_ends,
            ..
        } = holder;
        let last = self.fence(holder.last_fence);
        let held = match holder.fence {
            // The store in memory names no time after which somebody else could come.
            0 => "free".to_owned(),
            fence => {
                let fence = self.fence(fence);
                // A waiter for a permit may be told an earlier end of a holder that has left or renewed its lease since.
                let ttl = holder.ttl.filter(|_| !matches!(mode, LockMode::Permits(_)));
                let ttl = ttl.map(|it| it.as_millis().div_ceil(1000));
                // Of several, Redis names the one whose lease ends last, and none where there are too many.
                let name = (*others == 0).then_some((&holder.label, &holder.function));
                format!("{fence} for {ttl:?} of {name:?} and {others}")
            }
        };
        assert!(!never_ends);
        format!("busy {held}, last {last}, place {position:?}")
    }

    /// A hint as it is sent: `owner fence key`, or `owner fence+number key`.
    fn hint(&mut self, askers: &[Asker], message: &str) {
        let [owner, grant, key] = message.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{message}");
        };
        let who = askers.iter().position(|it| it.owner.to_string() == owner);
        let (fence, number) = grant.split_once('+').unwrap_or((grant, grant));
        let [fence, number] = [fence, number].map(|it| self.fence(it.parse().unwrap()));
        self.lines
            .push(format!("hint: {key} for {who:?}: {fence} {number}"));
    }
}

/// The hints of the store in memory.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl HintReceiver for Heard {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let Hint {
            owner,
            fence,
            number,
            key,
            ..
        } = hint;
        let message = format!("{owner} {fence}+{number} {key}");
        self.0.lock().unwrap().push(message);
        true
    }

    fn look_again(&self) -> bool {
        true
    }
}

struct World {
    /// Where the time is real.
    real: Runtime,
    /// Where it is that of the store in memory.
    paused: Runtime,
    server: RedisServer,
    store: RedisStore,
    behind: MultiplexedConnection,
    hears: PubSub,
    publish: &'static str,
    counter: String,
    lock: LockKey,
    _proxy: Option<Proxy>,
}

impl World {
    fn start(publishes: bool) -> Self {
        let real = Runtime::new().unwrap();
        let (server, store, behind, hears, counter, proxy) = real.block_on(async {
            let renamed = ["--rename-command", "PUBLISH", PUBLISH];
            let arguments: &[&str] = if publishes { &[] } else { &renamed };
            let server = RedisServer::start_with_clock(arguments).await;
            let proxy = (!publishes).then(|| {
                let proxy = Proxy::start(server.port());
                proxy.rename("PUBLISH", PUBLISH);
                proxy
            });
            let url = proxy.as_ref().map_or_else(|| server.url(), Proxy::url);
            let store = connect(&url).await;
            let behind = server.connection().await;
            let client = redis::Client::open(server.url()).unwrap();
            let mut hears = client.get_async_pubsub().await.unwrap();
            hears.psubscribe("dlock:wake:*").await.unwrap();
            take(&store, &key("k"), owner()).await;
            let counter = server.keys("dlock:fence:*").await.remove(0);
            (server, store, behind, hears, counter, proxy)
        });
        let paused = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        Self {
            real,
            paused,
            server,
            store,
            behind,
            hears,
            publish: if publishes { "PUBLISH" } else { PUBLISH },
            counter,
            lock: key("k"),
            _proxy: proxy,
        }
    }

    /// Lets both stores answer, and compares what is seen of them.
    fn compare(&mut self, of: &str, askers: &[Asker], steps: &[Step]) {
        for _ in 0..TRIES {
            let since = Instant::now();
            let (seen, expected) = self.play(askers, steps);
            if seen == expected {
                return;
            }
            if since.elapsed() < LIMIT {
                let at = seen
                    .iter()
                    .zip(&expected)
                    .take_while(|(one, other)| one == other);
                let at = at.count();
                let [seen, expected] = [&seen, &expected].map(|it| &it[at.saturating_sub(12)..]);
                let [seen, expected] =
                    [seen, expected].map(|it| it.iter().take(13).collect::<Vec<_>>());
                panic!("{of}: {askers:?}\n{at}: Redis: {seen:#?}\nin memory: {expected:#?}");
            }
        }
        panic!("the machine is too slow for this test");
    }

    fn play(&mut self, askers: &[Asker], steps: &[Step]) -> (Vec<String>, Vec<String>) {
        let (memory, heard) = (MemoryStore::new(), Arc::new(Heard::default()));
        let hooks = memory.properties().hooks.unwrap();
        for asker in askers {
            hooks.attach(asker.owner.client(), HintSink::new(heard.clone()));
        }
        let before = self.paused.block_on(async {
            let (warm, first) = (key("warm"), owner());
            let answer = memory.acquire(crate::request(&warm, first)).await;
            memory
                .release(ReleaseRequest::new(&warm, first))
                .await
                .unwrap();
            match answer {
                Ok(AcquireOutcome::Granted { fence, .. }) => fence,
                other => panic!("{other:?}"),
            }
        });
        let mut expected = Seen {
            before,
            lines: Vec::new(),
        };
        let mut seen = Seen {
            before: COUNTED,
            lines: Vec::new(),
        };
        self.real.block_on(async {
            run(&mut self.behind, "FLUSHALL").await;
            run(&mut self.behind, &format!("SET {} {COUNTED}", self.counter)).await;
        });
        let all_leave = (0..askers.len()).map(Step::Release);
        for step in steps.iter().copied().chain(all_leave) {
            if let Step::Pass(seconds) = step {
                let time = Duration::from_secs(seconds);
                self.paused.block_on(tokio::time::advance(time));
                // What ends at this very moment has ended in both.
                self.server
                    .put_clock_forward(time + Duration::from_millis(2));
            }
            let asks = expected.step(&memory, &self.lock, askers, step);
            self.paused.block_on(asks);
            let (store, lock, behind) = (&self.store, &self.lock, &mut self.behind);
            self.real.block_on(async {
                seen.step(store, lock, askers, step).await;
                for fault in faults(behind, &self.counter).await {
                    seen.lines.push(format!("after {step:?}: {fault}"));
                }
            });
        }
        let messages = std::mem::take(&mut *heard.0.lock().unwrap());
        for message in messages {
            expected.hint(askers, &message);
        }
        expected.lines.push(format!(
            "{} keys are left",
            self.paused.block_on(async { memory.len() })
        ));
        let real = self.real.handle().clone();
        let left = real.block_on(async {
            for message in self.heard().await {
                seen.hint(askers, &message);
            }
            self.server.keys("dlock:{*").await.len()
        });
        seen.lines.push(format!("{left} keys are left"));
        (seen.lines, expected.lines)
    }

    /// All hints since it was asked the last time.
    async fn heard(&mut self) -> Vec<String> {
        // What the store still publishes is sent before the next request.
        let next = owner();
        take(&self.store, &key("end"), next).await;
        let (lock, released) = (key("end"), ReleaseRequest::new(&self.lock, next));
        self.store.release(released.key(&lock)).await.unwrap();
        run(
            &mut self.behind,
            &format!("{} dlock:wake:end end", self.publish),
        )
        .await;
        let mut messages = self.hears.on_message();
        let mut all = Vec::new();
        loop {
            let message = timeout(DEADLINE, messages.next()).await;
            let message: String = message
                .expect("it is published")
                .unwrap()
                .get_payload()
                .unwrap();
            if message == "end" {
                return all;
            }
            all.push(message);
        }
    }
}

const LOCK: &str = "dlock:{k}";
const QUEUE: &str = "dlock:{k}:q";
const LIVING: &str = "dlock:{k}:a";

/// Members of a sorted set with the times that are their scores.
type Times = Vec<(String, f64)>;

/// The time, the type of the lock, how long all three last, both sets of waiters, and the counter.
type Read = ((i64, i64), String, i64, i64, i64, Times, Times, u64);

/// Times in the server differ by so many milliseconds where they are read one after the other.
const ROUNDED: i64 = 50;

/// What is wrong with what is stored of the lock `k`, by the table of keys of the protocol.
async fn faults(behind: &mut MultiplexedConnection, counter: &str) -> Vec<&'static str> {
    let mut reads = redis::pipe();
    reads.atomic().cmd("TIME").cmd("TYPE").arg(LOCK);
    for key in [LOCK, QUEUE, LIVING] {
        reads.cmd("PTTL").arg(key);
    }
    for key in [QUEUE, LIVING] {
        reads.cmd("ZRANGE").arg(key).arg(&["0", "-1", "WITHSCORES"]);
    }
    reads.cmd("GET").arg(counter);
    let (time, kind, left, queue_left, living_left, queue, living, last_fence): Read =
        reads.query_async(behind).await.unwrap();
    let now = time.0 * 1000 + time.1 / 1000;
    let mut faults = Vec::new();
    let mut expect = |is_right: bool, fault| {
        if !is_right {
            faults.push(fault);
        }
    };
    let names = |times: &Times| {
        let mut names: Vec<_> = times.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    };
    expect(
        names(&queue) == names(&living),
        "both sets have the same waiters",
    );
    expect(
        queue.windows(2).all(|pair| pair[0].1 < pair[1].1),
        "no two waiters come at the same time",
    );
    if let Some(longest) = living
        .iter()
        .map(|(_, alive_until)| whole(*alive_until))
        .max()
    {
        let shortest = longest - now + 1000 - ROUNDED;
        for left in [queue_left, living_left] {
            expect(
                left > 0 && left <= 4000,
                "the sets of waiters end by themselves",
            );
            expect(
                left >= shortest,
                "they last a second longer than the last waiter",
            );
        }
    }
    expect(kind == "none" || left > 0, "a lock has a TTL");
    let mut fence = None;
    if kind == "string" {
        let value: Option<String> = redis::cmd("GET")
            .arg(LOCK)
            .query_async(behind)
            .await
            .unwrap();
        // It may have ended meanwhile.
        let value = value.unwrap_or_default();
        fence = value.split(' ').nth(1).map(str::to_owned);
    } else if kind == "hash" {
        let mut holders: HashMap<String, String> = redis::cmd("HGETALL")
            .arg(LOCK)
            .query_async(behind)
            .await
            .unwrap();
        if holders.is_empty() {
            // It has ended meanwhile.
            return faults;
        }
        let head = holders.remove("!").unwrap_or_default();
        let (epoch, earliest) = head.split_once(' ').unwrap_or_default();
        fence = Some(epoch.to_owned());
        let ends = holders.values().filter_map(|it| it.split_once(' '));
        let ends: Vec<i64> = ends.filter_map(|(end, _)| end.parse().ok()).collect();
        expect(
            ends.len() == holders.len() && !ends.is_empty(),
            "each holder has an end and a label",
        );
        let first = ends.iter().copied().min().unwrap_or_default();
        let earliest = earliest.parse::<i64>();
        expect(
            earliest.is_ok_and(|it| it <= first),
            "no lease ends before the earliest time",
        );
        let last = ends.iter().copied().max().unwrap_or_default();
        expect(
            left >= last - now - ROUNDED,
            "the key lasts as long as its last lease",
        );
    }
    if let Some(fence) = fence {
        let fence = fence.parse::<u64>();
        expect(
            fence.is_ok_and(|it| it <= last_fence),
            "the counter is not behind the lock",
        );
    }
    faults
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "times of this age are exact"
)]
fn whole(time: f64) -> i64 {
    time as i64
}

#[test]
fn redis_answers_as_the_store_in_memory_does() {
    let mut world = World::start(true);
    for seed in 0..150 {
        let (askers, steps) = drawn(seed);
        world.compare(&format!("sequence {seed}"), &askers, &steps);
    }
}

#[test]
fn redis_answers_as_the_store_in_memory_does_where_scripts_cannot_publish() {
    let mut world = World::start(false);
    for seed in 150..250 {
        let (askers, steps) = drawn(seed);
        world.compare(&format!("sequence {seed}"), &askers, &steps);
    }
}

/// The next request grants the lock to those beyond.
#[test]
fn one_request_grants_or_tells_64_waiters_at_most() {
    let mut world = World::start(true);
    for wish in [Wish::Lease, Wish::Notice] {
        let mut askers = vec![Asker::new(LockMode::Exclusive, Wish::Once, 20)];
        askers.extend((0..70).map(|_| Asker::new(LockMode::Shared, wish, 20)));
        askers.push(Asker::new(LockMode::Shared, Wish::Once, 5));
        askers.push(Asker::new(LockMode::Exclusive, Wish::Once, 5));
        let ask = |who| Step::Ask { who, least: 0 };
        let mut steps: Vec<_> = (0..=70).map(ask).collect();
        // An exclusive request changes nothing, and names how many there are.
        steps.extend([
            Step::Release(0),
            ask(72),
            ask(71),
            ask(72),
            Step::Pass(2),
            ask(72),
        ]);
        world.compare(&format!("{wish:?}"), &askers, &steps);
    }
}
