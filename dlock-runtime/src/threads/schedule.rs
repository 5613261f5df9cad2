//! One thread runs at a time, chosen by a seed.
//!
//! The threads are real. Each has a runtime whose clock is paused: no timer fires, so a task that misses its wake-up
//! waits without end, which is detected at once. A thread that waits or has finished passes its turn to the tasks that
//! were spawned on its runtime.

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

/// More turns than this are no progress: some threads wait for each other's mutex.
const MOST_TURNS: u32 = 200_000;

/// The number of turns that each thread gets while none can go on, before the schedule gives up.
const ROUNDS_OF_REST: usize = 4;

/// Lets the threads run in the order of `seed` until all are done and no task of theirs goes on, and then `check` look at
/// what they have left.
///
/// # Panics
///
/// If one of them panics, or waits for ever. The others then stay where they are.
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
    // While all runtimes are still there: their end would give back what was forgotten.
    let checked = catch_unwind(AssertUnwindSafe(check));
    if let Err(found) = checked {
        panic!("seed {seed}: {}", text(&*found));
    }
    schedule.turn().ends = true;
    schedule.notify_all();
    for thread in threads {
        thread.join().expect("it has done its work");
    }
}

/// A runtime with a paused clock: no task waits for a timer.
pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let start = start().monotonic;
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread");
    runtime.block_on(async { tokio::time::advance(start - Instant::now()).await });
    runtime
}

/// One of the threads, for its body.
pub(crate) struct Me {
    schedule: Arc<Schedule>,
    index: usize,
    runtime: Option<Runtime>,
    /// The time by which its clock has been put forward.
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

    /// A number below `end`.
    pub(crate) fn draw(&mut self, end: u64) -> u64 {
        self.drawn = draw(self.drawn);
        (self.drawn >> 20) % end
    }

    /// Runs `work` on this thread's runtime, and returns its result.
    pub(crate) fn block_on<F: Future>(&mut self, work: F) -> F::Output {
        let polled = self.poll_until(work, u64::MAX);
        polled.unwrap_or_else(|| unreachable!("it has been polled to its end"))
    }

    /// The same, unless it is dropped after so many polls.
    pub(crate) fn poll_until<F: Future>(&mut self, work: F, polls: u64) -> Option<F::Output> {
        // Dropped later than the work, which is dropped on its runtime as by a `select!`.
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
                    "there is no end before all have ended"
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

    /// Ends the runtime of this thread, with the tasks that are on it, and goes on with another one.
    pub(crate) fn end_runtime(&mut self) {
        let next = runtime();
        // The work that its end starts reads the clock there.
        let inside = next.handle().clone();
        let _inside = inside.enter();
        drop(self.runtime.replace(next));
        self.ahead = Duration::ZERO;
    }

    /// Puts the clocks of all runtimes forward, when they are run next.
    pub(crate) fn advance(&self, time: Duration) {
        self.schedule.turn().ahead += time;
    }

    /// Runs the tasks of the runtime that can go on.
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
    /// It would go on.
    Ready,
    /// It would once this is set; until then it only lends its turn.
    Waits(Arc<Flag>),
    /// It has done its work, and only lends its turn.
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
    /// One for each thread, and the last for the thread that has started them.
    bells: Vec<Condvar>,
}

struct Turn {
    /// The thread whose turn it is.
    whose: Option<usize>,
    states: Vec<State>,
    begun: usize,
    drawn: u64,
    /// A change of turns is so rare; one to a thread that only lends its turn is as rare as `lends`.
    stays: u64,
    lends: u64,
    turns: u32,
    /// Turns that were lent since a thread could go on.
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

    /// Until all have done their work, or something was found.
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
                return Err("a thread keeps its turn for ever".to_owned());
            }
        }
    }

    fn fail(&self, found: String) {
        self.turn().over = Some(Err(found));
        self.notify_all();
    }

    /// The first turn is given when all are there.
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
            turn.over = Some(Err("no end is in sight".to_owned()));
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

    /// Waits for a turn that can be lent, or for one of its own once `flag` is set; `false` at the end of all.
    fn rest(&self, me: usize, flag: Option<&Arc<Flag>>) -> bool {
        let mut turn = self.turn();
        turn.states[me] = flag.map_or(State::Done, |flag| State::Waits(flag.clone()));
        self.give(&mut turn);
        self.wait_for(turn, me)
    }

    /// Chooses whose turn is next.
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
                    Err(format!("{waiting:?} of {threads} threads wait for ever"))
                });
                turn.whose = None;
                self.notify_all();
                return;
            }
            turn.lent % threads
        } else {
            let lends = turn.lends;
            match turn.draw(lends) {
                // Tasks go on while threads do.
                0 => turn.pick(threads),
                _ => going[turn.pick(going.len())],
            }
        };
        turn.whose = Some(whose);
        self.bells[whose].notify_all();
    }

    /// Returns when it is the turn of `me`; `false` at the end of all.
    fn wait_for(&self, mut turn: MutexGuard<'_, Turn>, me: usize) -> bool {
        loop {
            if turn.ends {
                return false;
            }
            // After a failure no thread goes on.
            if turn.whose == Some(me) && turn.over.is_none() {
                // Also one that only lends it: a task that was begun is to get on.
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

/// The text of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}
