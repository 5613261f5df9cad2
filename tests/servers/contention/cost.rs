//! The cost of contention for the server, in requests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{LockManager, Wait};
use dlock_testkit::within;
use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, sleep},
};

use crate::common::{Env, Kind, Memory, OneKey, Redis, TestClock, Wire, assert_idle, soon};
use crate::contention::{
    history::{History, Notes},
    load::{Crowds, patient},
};

const LONG: Duration = Duration::from_secs(600);

/// The requests that the server has had so far.
async fn requests(env: &Redis) -> u64 {
    env.server.command_count("evalsha").await + env.server.command_count("eval").await
}

#[allow(clippy::cast_precision_loss, reason = "these are small numbers")]
fn assert_costs(requests: u64, sections: usize, limit: f64) {
    let each = requests as f64 / sections as f64;
    println!("{requests} requests for {sections} sections");
    assert!(
        each <= limit,
        "{requests} requests for {sections} sections: {each:.3} for one, which are more than {limit}"
    );
}

/// One to enter the queue, one to give the lock to the next.
#[tokio::test]
async fn a_section_contended_between_processes_costs_two_requests() {
    let mut crowds = Crowds::start(&["order:42"]).await;
    for _ in 0..2 {
        crowds.add(true, 400, vec![patient("order:42")]);
    }
    let ran = crowds.run(requests).await;
    ran.history.assert_exclusive();
    let sections = ran.history.sections().len();
    assert!(sections >= 800);
    assert_costs(ran.after - ran.before, sections, 2.1);
}

/// The requests of one process with 64 tasks at one key, how many sections they were for, and how long those took.
async fn one_process(handover: bool) -> (u64, usize, Duration) {
    const TASKS: usize = 64;
    const SECTIONS: usize = 50;

    let env = Redis::start().await;
    let manager = env.manager_with(|builder| builder.handover(handover)).await;
    let (before, since) = (requests(&env).await, Instant::now());
    let notes = Arc::new(Notes::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (notes, lock) = (notes.clone(), manager.lock("order:42").wait(Wait::Forever));
        tasks.spawn(async move {
            for _ in 0..SECTIONS {
                let guard = lock.clone().acquire().await.unwrap();
                let token = guard.fencing_token();
                drop(notes.begin("order:42", [0, task], Duration::ZERO, token));
                guard.release().await.unwrap();
            }
        });
    }
    // All of them end when nearly all sections have been: a busy machine takes long for that.
    let ended = within(LONG, tasks.join_all()).await;
    ended.expect("all have had their turns");
    let (cost, took) = (requests(&env).await - before, since.elapsed());
    let history = History::new(notes.take());
    history.assert_exclusive();
    assert_eq!(history.sections().len(), TASKS * SECTIONS);
    env.assert_clean(1, &[&manager]).await;
    (cost, TASKS * SECTIONS, took)
}

#[tokio::test]
async fn a_section_contended_within_a_process_costs_next_to_nothing() {
    let (requests, sections, took) = one_process(true).await;
    // A lease goes back after a turn of 10 ms, however few sections a busy machine gets done in it.
    let turns = u64::try_from(took.as_millis() / 10).unwrap() + 1;
    println!("{requests} requests for {sections} sections in {turns} turns");
    assert!(
        requests <= 2 * turns + took.as_secs(),
        "{requests} requests for {sections} sections in {took:?}"
    );
}

#[tokio::test]
async fn without_hand_over_a_section_within_a_process_costs_two_requests() {
    let (requests, sections, _) = one_process(false).await;
    assert_costs(requests, sections, 2.05);
}

/// Tasks that queue one behind the other, and note their number when they have got the lock.
struct Line {
    tasks: JoinSet<()>,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Line {
    async fn up(manager: &LockManager, length: usize) -> Self {
        let order = Arc::<Mutex<Vec<_>>>::default();
        let mut tasks = JoinSet::new();
        for number in 0..length {
            let lock = manager.lock("order:42").wait(Wait::Forever);
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            // One after the other.
            yield_now().await;
        }
        Self { tasks, order }
    }

    /// All get the lock, in the order in which they came.
    async fn drain(mut self) {
        let length = self.tasks.len();
        while let Some(task) = soon(self.tasks.join_next()).await {
            task.unwrap();
        }
        let order = self.order.lock().unwrap();
        assert_eq!(*order, (0..length).collect::<Vec<_>>());
    }
}

/// Only one of them asks, about once a second.
#[tokio::test]
async fn a_hundred_waiters_of_a_process_cost_as_much_as_one() {
    let env = Redis::start().await;
    let (holder, manager) = (env.manager().await, env.manager().await);
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let line = Line::up(&manager, 100).await;
    OneKey::new(env.store().await, "order:42")
        .until_waiting(1)
        .await;
    let (before, since) = (requests(&env).await, Instant::now());
    sleep(Duration::from_secs(3)).await;
    let cost = requests(&env).await - before;
    assert!(cost <= since.elapsed().as_secs() + 1, "{cost} requests");

    let before = requests(&env).await;
    soon(guard.release()).await.unwrap();
    line.drain().await;
    // A lease of its own for each would be two requests.
    assert_costs(requests(&env).await - before, 100, 1.0);
    env.assert_clean(1, &[&holder, &manager]).await;
}

/// The same over a longer time, to the request.
#[tokio::test(start_paused = true)]
async fn a_waiting_process_asks_at_most_once_a_second() {
    let env = Memory::start().await;
    let wire = Wire::new(env.store().await);
    let builder = LockManager::builder().clock(TestClock::new());
    let manager = builder.build_with_store(wire.clone()).unwrap();
    let holder = env.manager_with(|it| it.clock(TestClock::new())).await;
    let guard = holder.lock("order:42").acquire().await.unwrap();
    let line = Line::up(&manager, 100).await;
    wire.until_sent(Kind::Acquire, 1).await;
    sleep(Duration::from_secs(100)).await;
    let asked = wire.count(Kind::Acquire);
    assert!((80..=101).contains(&asked), "{asked} requests");

    let before = Instant::now();
    guard.release().await.unwrap();
    line.drain().await;
    assert!(before.elapsed().is_zero(), "{:?}", before.elapsed());
    assert_eq!(wire.count(Kind::Acquire), asked, "the hint was enough");
    assert_idle(&[&holder, &manager]).await;
}
