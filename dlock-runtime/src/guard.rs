//! Proof of holding a lock: the guard that owns a lease, and the lease its body sees.

mod watch;

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use crate::{
    error::{LockError, LostCause},
    fence::FencingToken,
    key::LockKey,
    observe,
    options::OnLost,
    section::Section,
    state::{Effect, Event, Loss},
    store::Released,
};

pub use watch::Watch;

/// What an attempt occupies; dropping it gives everything back in the background.
pub(crate) struct Occupied {
    section: Arc<Section>,
    left: bool,
}

impl Occupied {
    pub(crate) fn new(section: Arc<Section>) -> Self {
        Self {
            section,
            left: false,
        }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if !self.left {
            self.section.leave_in_background();
        }
    }
}

/// A held lock. It is renewed until the guard is released or dropped.
///
/// Dropping it releases the lock in the background, also while unwinding and outside a runtime;
/// [`release`](Self::release) waits for the answer and tells whether the lease was valid to the
/// end. It reads as the [`Lease`] it owns.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # async fn demo() -> Result<(), dlock::LockError> {
/// let manager = dlock::LockManager::memory();
/// let guard = manager.lock("report:daily").acquire().await?;
/// println!("token {} for {}", guard.fencing_token(), guard.key());
/// guard.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
#[must_use = "dropping the guard releases the lock at once"]
pub struct LockGuard {
    lease: Lease,
}

/// The right to hold a key until a deadline.
///
/// A helper that must only run under the lock takes `&Lease`: the compiler then asks its caller
/// for the proof.
pub struct Lease {
    place: Occupied,
    token: FencingToken,
}

impl LockGuard {
    pub(crate) fn new(place: Occupied, token: FencingToken) -> Self {
        Self {
            lease: Lease { place, token },
        }
    }

    /// The lease this guard owns.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn section(&self) -> &Arc<Section> {
        &self.lease.place.section
    }

    /// Runs `body` as long as the lease is valid.
    ///
    /// With [`OnLost::Cancel`] the body is dropped at the await it has reached as soon as the
    /// lease is lost. It is never started without a valid lease.
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the body was cancelled or never started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body; the lock stays held by the guard.
    pub fn watch<F: Future>(&self, body: F) -> Watch<'_, F> {
        Watch::new(self.section(), body)
    }

    /// Gives the lock back and waits until the store has confirmed it.
    ///
    /// A store that does not answer is not the caller's error: the release is repeated in the
    /// background until the lease has run out.
    ///
    /// # Errors
    ///
    /// The future yields [`LockError::Lost`] if the lease was not valid to the end, unless
    /// [`OnLost::Finish`] was asked for.
    ///
    /// # Cancel safety
    ///
    /// The lock is given back whether the future is awaited to its end or dropped at any point.
    pub fn release(self) -> Release {
        Release(Box::pin(release(self.lease.place)))
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lease).finish()
    }
}

impl Lease {
    /// The lock.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.place.section.key()
    }

    /// The number by which a protected resource can refuse a late writer.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// How long the lease may still be trusted without another renewal; zero once it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let section = &self.place.section;
        section.check().map_or(Duration::ZERO, |held| {
            held.deadline.remaining(section.now())
        })
    }

    /// Whether the lease ended before it was released.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.place.section.check().is_err()
    }

    /// Says whether the lease is valid right now. Call it before a step that cannot be undone.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the lease is lost.
    pub fn ensure(&self) -> Result<(), LockError> {
        let section = &self.place.section;
        section
            .check()
            .map(drop)
            .map_err(|loss| section.lost_error(loss))
    }

    /// Waits until the lease is lost and says how.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockError {
        let section = &self.place.section;
        loop {
            // Made before the check, it misses no loss.
            let ring = section.ring();
            if let Err(loss) = section.check() {
                return section.lost_error(loss);
            }
            ring.await;
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", self.key())
            .field("token", &self.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// The future of [`LockGuard::release`].
#[must_use = "dropping it releases in the background, without an answer"]
pub struct Release(Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>);

impl Future for Release {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Release")
    }
}

async fn release(mut place: Occupied) -> Result<(), LockError> {
    let section = place.section.clone();
    let now = section.now();
    let held = match section.check_at(now) {
        Ok(held) => held,
        Err(loss) => {
            // Nothing to wait for: what may be left in the store goes in the background.
            drop(place);
            return end_of_lost(&section, loss);
        }
    };
    if Handle::try_current().is_err() {
        // No timer could limit the request here; dropping the place sends it elsewhere.
        return Ok(());
    }
    let Effect::Release { owner } = section.event_at(Event::Left, now) else {
        // The next one in this process has it already.
        place.left = true;
        observe::handed_over(&section);
        return Ok(());
    };
    section.shared.keeper.remove(owner);
    let answer = section.ask_release(owner).await;
    // The time matters only if there is none.
    let now = if answer.is_ok() { now } else { section.now() };
    let released = Event::Released(answer.ok());
    let Effect::Forget(released) = section.event_at(released, now) else {
        // Whether it arrived is unknown: dropping the place repeats it.
        return Ok(());
    };
    place.left = true;
    match released {
        Some(Released::WasGone) => {
            let held_for = held.since.elapsed(section.now());
            let cause = LostCause::TakenAway;
            let loss = Loss { cause, held_for };
            // As every loss: the caller may have detached the section, and not get the error.
            observe::lost(&section, &loss);
            end_of_lost(&section, loss)
        }
        Some(Released::WasHeld) => Ok(()),
        None => {
            observe::release_given_up(&section);
            Ok(())
        }
    }
}

fn end_of_lost(section: &Section, loss: Loss) -> Result<(), LockError> {
    let error = section.lost_error(loss);
    match section.timing.on_lost {
        OnLost::Cancel => Err(error),
        OnLost::Finish => {
            observe::lost_but_finished(section, &error);
            Ok(())
        }
    }
}

pin_project! {
    /// The future of [`finish`].
    //
    // Not in the expansion, where an output kept over the await of the release would make each
    // function's future larger than this does.
    #[must_use = "futures do nothing unless polled"]
    pub struct Finish<T> {
        release: Release,
        output: Option<Result<T, LockError>>,
    }
}

/// Releases the lock of a body with this output, and yields the outcome of both.
///
/// # Errors
///
/// The future yields [`LockError::Lost`] if either says so.
pub fn finish<T>(guard: LockGuard, output: Result<T, LockError>) -> Finish<T> {
    Finish {
        release: guard.release(),
        output: Some(output),
    }
}

impl<T> Future for Finish<T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Poll::Ready(released) = Pin::new(this.release).poll(context) else {
            return Poll::Pending;
        };
        let output = this.output.take();
        let output = output.expect("a future is not polled after its end");
        Poll::Ready(match (output, released) {
            (Ok(output), Ok(())) => Ok(output),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        })
    }
}
