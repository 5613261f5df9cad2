//! Races between threads in many orders, for tests only.
//!
//! `schedule` runs one thread at a time. A seed chooses the next thread at each call of [`interrupt`]: before and after
//! every mutex, clock and request. `shaken` runs the threads at once, and delays each of them now and then at these
//! places.

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
    /// The schedule that this thread is in, and its number there.
    static PLACE: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
    /// The random state of a shaken thread; 0 in any other.
    static SHAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The number of tests that shake the threads that they have used.
static SHAKING: AtomicUsize = AtomicUsize::new(0);

/// Another thread may go first here. Says whether a schedule decides about that.
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

/// Makes a shaken thread wait now and then.
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

/// The next of a row of random numbers, none of which is 0.
fn draw(last: u64) -> u64 {
    let mut next = last;
    next ^= next << 13;
    next ^= next >> 7;
    next ^= next << 17;
    next
}

/// The begin of a row for each seed.
fn row(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    draw(draw(mixed | 1))
}

/// The seeds to be tried: `usual` from 0, or as many as `DLOCK_THREADS_SEEDS` says, or the one that `DLOCK_THREADS_SEED`
/// names.
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
