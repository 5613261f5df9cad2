//! Runs one thread at a time; a seed selects which.
//!
//! The threads are real. Each has its own runtime, whose clock is paused: no timer fires. A thread that waits for a
//! lost wake-up therefore waits forever, and the schedule detects that at once. A thread that waits or is done lends
//! its turn to the tasks that were spawned on its runtime.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use tokio::{runtime::Runtime, task::yield_now, time::Instant};

use super::{PLACE, draw, row, world::start};

/// The work of one of the threads.
pub(crate) type Body = Box<dyn FnOnce(&mut Me) + Send>;

/// With more turns than this, the schedule assumes a deadlock of mutexes.
const MOST_TURNS: u32 = 200_000;

/// The number of turns that each thread gets while none can continue, before the schedule ends.
const ROUNDS_OF_REST: usize = 4;

/// Runs the threads in the order of `seed` until all are done and none of their tasks can continue. Then calls `check`
/// to examine the result.
///
/// # Panics
///
/// If a thread panics or waits forever. The other threads then stay blocked.
pub(crate) fn explore(seed: u64, bodies: Vec<Body>, check: impl FnOnce()) {
    let schedule = Arc::new(Schedule::new(seed, bodies.len()));
    let threads: Vec<_> = bodies
        .into_iter()
        .enumerate()
        .map(|(index, body)| {
            let me = Me {
                schedule: schedule.clone(),
                index,
                runtime: Some(runtime()),
                ahead: Duration::ZERO,
                drawn: row(seed ^ (index as u64 + 1) << 32),
            };
            thread::spawn(move || me.run(body))
        })
        .collect();
    if let Err(found) = schedule.run() {
        panic!("seed {seed}: {found}");
    }
    // Before the runtimes end: their end would release forgotten leases.
    let checked = catch_unwind(AssertUnwindSafe(check));
    if let Err(found) = checked {
        panic!("seed {seed}: {}", text(&*found));
    }
    schedule.turn().ends = true;
    schedule.notify_all();
    for thread in threads {
        thread.join().expect("the thread is done");
    }
}

/// Creates a runtime whose clock is paused. It never advances by itself, because no `block_on` waits for a timer.
pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let start = start().monotonic;
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread");
    runtime.block_on(async { tokio::time::advance(start - Instant::now()).await });
    runtime
}

/// A thread, as its body sees it.
pub(crate) struct Me {
    schedule: Arc<Schedule>,
    index: usize,
    runtime: Option<Runtime>,
    /// The time by which its clock has been advanced.
    ahead: Duration,
    drawn: u64,
}

impl Me {
    fn run(mut self, body: Body) {
        PLACE.set(Some((self.schedule.clone(), self.index)));
        self.schedule.begin(self.index);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            body(&mut self);
            while self.schedule.rest(self.index, None) {
                self.lend();
            }
        }));
        PLACE.set(None);
        if let Err(found) = ran {
            self.schedule.fail(text(&*found));
        }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it has one until its end")
    }

    /// Returns a random number below `end`.
    pub(crate) fn draw(&mut self, end: u64) -> u64 {
        self.drawn = draw(self.drawn);
        (self.drawn >> 20) % end
    }

    /// Runs `work` on this thread's runtime and returns its result.
    pub(crate) fn block_on<F: Future>(&mut self, work: F) -> F::Output {
        let polled = self.poll_until(work, u64::MAX);
        polled.unwrap_or_else(|| unreachable!("it has been polled to its end"))
    }

    /// Does the same, but drops `work` after `polls` polls.
    pub(crate) fn poll_until<F: Future>(&mut self, work: F, polls: u64) -> Option<F::Output> {
        // Entered for longer than the work lives: the work is dropped inside of its runtime, as by a `select!`.
        let inside = self.runtime().handle().clone();
        let _inside = inside.enter();
        let mut work = pin!(work);
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(flag.clone());
        for _ in 0..polls {
            let poll = async {
                let poll = work.as_mut().poll(&mut Context::from_waker(&waker));
                yield_now().await;
                poll
            };
            if let Poll::Ready(output) = self.runtime().block_on(poll) {
                return Some(output);
            }
            while !flag.0.swap(false, Ordering::SeqCst) {
                assert!(
                    self.schedule.rest(self.index, Some(&flag)),
                    "the schedule ends only after all threads"
                );
                self.lend();
            }
        }
        None
    }

    /// Calls `work` on this thread's runtime.
    pub(crate) fn on_runtime<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.block_on(async { work() })
    }

    /// Ends the runtime of this thread, with its tasks, and replaces it.
    pub(crate) fn end_runtime(&mut self) {
        let next = runtime();
        // Work that starts at its end reads the clock of the next runtime.
        let inside = next.handle().clone();
        let _inside = inside.enter();
        drop(self.runtime.replace(next));
        self.ahead = Duration::ZERO;
    }

    /// Advances the clocks of all runtimes, each when it runs next.
    pub(crate) fn advance(&self, time: Duration) {
        self.schedule.turn().ahead += time;
    }

    /// Runs the tasks of the runtime that can continue.
    fn lend(&mut self) {
        let ahead = self.schedule.turn().ahead;
        let late = ahead.saturating_sub(self.ahead);
        self.ahead = ahead;
        self.runtime().block_on(async {
            if !late.is_zero() {
                tokio::time::advance(late).await;
            }
            yield_now().await;
        });
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The state of a thread when it is not its turn.
#[derive(Clone)]
enum State {
    /// It can continue.
    Ready,
    /// It can continue once the flag is set. Until then, it only lends its turn.
    Waits(Arc<Flag>),
    /// It is done and only lends its turn.
    Done,
}

impl State {
    fn goes_on(&self) -> bool {
        match self {
            Self::Ready => true,
            Self::Waits(flag) => flag.0.load(Ordering::SeqCst),
            Self::Done => false,
        }
    }
}

pub(super) struct Schedule {
    turn: Mutex<Turn>,
    /// One for each thread, and the last for the thread that called [`explore`].
    bells: Vec<Condvar>,
}

struct Turn {
    /// The thread whose turn it is.
    whose: Option<usize>,
    states: Vec<State>,
    begun: usize,
    drawn: u64,
    /// One in `stays` interrupts changes the turn. One in `lends` turns may go to a thread that only lends it.
    stays: u64,
    lends: u64,
    turns: u32,
    /// The number of turns that were lent since a thread could continue.
    lent: usize,
    over: Option<Result<(), String>>,
    ends: bool,
    ahead: Duration,
}

impl Schedule {
    fn new(seed: u64, threads: usize) -> Self {
        let turn = Turn {
            whose: None,
            states: vec![State::Ready; threads],
            begun: 0,
            drawn: row(seed),
            stays: 2 + seed % 2,
            lends: [8, 4, 2][usize::try_from(seed % 3).expect("0 to 2")],
            turns: 0,
            lent: 0,
            over: None,
            ends: false,
            ahead: Duration::ZERO,
        };
        Self {
            turn: Mutex::new(turn),
            bells: (0..=threads).map(|_| Condvar::new()).collect(),
        }
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_all(&self) {
        self.bells.iter().for_each(Condvar::notify_all);
    }

    /// Waits until all threads are done or one has failed.
    fn run(&self) -> Result<(), String> {
        let mut turn = self.turn();
        let last = self.bells.len() - 1;
        loop {
            if let Some(over) = turn.over.clone() {
                return over;
            }
            let waited = self.bells[last].wait_timeout(turn, Duration::from_secs(120));
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            turn = next;
            if timeout.timed_out() && turn.over.is_none() {
                return Err("a thread does not end its turn".to_owned());
            }
        }
    }

    fn fail(&self, found: String) {
        self.turn().over = Some(Err(found));
        self.notify_all();
    }

    /// The first turn starts when all threads have begun.
    fn begin(&self, me: usize) {
        let mut turn = self.turn();
        turn.begun += 1;
        if turn.begun == turn.states.len() {
            self.give(&mut turn);
        }
        self.wait_for(turn, me);
    }

    pub(super) fn interrupt(&self, me: usize) {
        let mut turn = self.turn();
        (turn.turns, turn.lent) = (turn.turns + 1, 0);
        if turn.turns > MOST_TURNS {
            turn.over = Some(Err(format!("no end after {MOST_TURNS} turns")));
            self.notify_all();
        } else {
            let stays = turn.stays;
            if turn.draw(stays) > 0 {
                return;
            }
        }
        self.give(&mut turn);
        self.wait_for(turn, me);
    }

    /// Waits for a turn to lend, or for the thread's own turn once `flag` is set. Returns `false` when all threads end.
    fn rest(&self, me: usize, flag: Option<&Arc<Flag>>) -> bool {
        let mut turn = self.turn();
        turn.states[me] = flag.map_or(State::Done, |flag| State::Waits(flag.clone()));
        self.give(&mut turn);
        self.wait_for(turn, me)
    }

    /// Selects the thread whose turn is next.
    fn give(&self, turn: &mut Turn) {
        if turn.over.is_some() {
            return;
        }
        let threads = turn.states.len();
        let going = |turn: &Turn| {
            let states = turn.states.iter().enumerate();
            let going = states.filter_map(|(index, state)| state.goes_on().then_some(index));
            going.collect::<Vec<_>>()
        };
        let going = going(turn);
        let whose = if going.is_empty() {
            turn.lent += 1;
            if turn.lent > ROUNDS_OF_REST * threads {
                let waiting = turn.states.iter().enumerate();
                let waiting = waiting.filter(|(_, state)| matches!(state, State::Waits(_)));
                let waiting: Vec<_> = waiting.map(|(index, _)| index).collect();
                turn.over = Some(if waiting.is_empty() {
                    Ok(())
                } else {
                    Err(format!("threads {waiting:?} of {threads} wait forever"))
                });
                turn.whose = None;
                self.notify_all();
                return;
            }
            turn.lent % threads
        } else {
            let lends = turn.lends;
            match turn.draw(lends) {
                // Tasks also run while threads can continue.
                0 => turn.pick(threads),
                _ => going[turn.pick(going.len())],
            }
        };
        turn.whose = Some(whose);
        self.bells[whose].notify_all();
    }

    /// Waits for the turn of `me`. Returns `false` when all threads end.
    fn wait_for(&self, mut turn: MutexGuard<'_, Turn>, me: usize) -> bool {
        loop {
            if turn.ends {
                return false;
            }
            // After a failure, no thread continues.
            if turn.whose == Some(me) && turn.over.is_none() {
                // Also for a thread that only lends its turn, so that a task that has begun makes progress.
                turn.states[me] = State::Ready;
                return true;
            }
            let waited = self.bells[me].wait(turn);
            turn = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Turn {
    fn draw(&mut self, end: u64) -> u64 {
        self.drawn = draw(self.drawn);
        (self.drawn >> 20) % end
    }

    fn pick(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("there are few threads");
        usize::try_from(self.draw(end)).expect("there are few threads")
    }
}

/// Returns the text of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}
