//! Tests of races between threads, in many orders.
//!
//! Code calls [`interrupt`] before and after every mutex, clock and request. `schedule` runs one thread at a time and
//! selects the next one there, by a seed. `shaken` runs all threads at once and delays them there at random.

mod schedule;
mod sections;
mod shaken;
mod table;
mod world;

use std::{
    cell::{Cell, RefCell},
    env,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use self::schedule::Schedule;
pub(crate) use self::{
    schedule::{Body, Me, explore, runtime},
    world::{Requests, StillClock},
};

thread_local! {
    /// The schedule of this thread, and the thread's index there.
    static PLACE: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
    /// The random state of a shaken thread; 0 in any other.
    static SHAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The number of running tests that shake threads.
static SHAKING: AtomicUsize = AtomicUsize::new(0);

/// Lets another thread run first. Returns `true` if the thread belongs to a schedule.
pub(crate) fn interrupt() -> bool {
    if thread::panicking() {
        return false;
    }
    let place = PLACE.try_with(|place| place.borrow().clone());
    if let Ok(Some((schedule, me))) = place {
        schedule.interrupt(me);
        return true;
    }
    if SHAKING.load(Ordering::Relaxed) > 0 {
        shake();
    }
    false
}

/// Delays a shaken thread at random.
fn shake() {
    let drawn = SHAKEN.try_with(|state| match state.get() {
        0 => 0,
        last => {
            let next = draw(last);
            state.set(next);
            next
        }
    });
    match drawn {
        Ok(0) | Err(_) => {}
        Ok(drawn) if (drawn >> 32).is_multiple_of(64) => {
            thread::sleep(Duration::from_micros(drawn >> 40 & 127));
        }
        Ok(drawn) if drawn >> 32 & 7 == 1 => thread::yield_now(),
        Ok(drawn) if drawn >> 32 & 7 == 2 => {
            (0..drawn >> 40 & 1023).for_each(|_| std::hint::spin_loop());
        }
        Ok(_) => {}
    }
}

/// Returns the next number of a random sequence. It is never 0.
fn draw(last: u64) -> u64 {
    let mut next = last;
    next ^= next << 13;
    next ^= next >> 7;
    next ^= next << 17;
    next
}

/// Returns the first number of the sequence of `seed`.
fn row(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    draw(draw(mixed | 1))
}

/// Returns the seeds to test: 0 to `usual`, or to `DLOCK_THREADS_SEEDS`, or only `DLOCK_THREADS_SEED`.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let of = |name| {
        let value = env::var(name).ok()?;
        Some(value.parse::<u64>().expect("a number of seeds"))
    };
    match of("DLOCK_THREADS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..of("DLOCK_THREADS_SEEDS").unwrap_or(usual),
    }
}
