//! The contract between dlock and whatever decides who holds a key.
//!
//! A store knows keys, owners and time; it knows nothing of tasks, guards or renewal. *Busy* and
//! *not yours* are answers. An `Err` always means that the store did not tell: the request may or
//! may not have been carried out.

mod boxed;
mod error;
pub mod memory;
pub mod quorum;
#[cfg(feature = "redis")]
pub mod redis;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
};

pub(crate) use boxed::DynStore;
pub use error::{StoreError, StoreErrorKind};

/// How long a waiter counts as alive after its last question.
pub const ALIVE: Duration = Duration::from_secs(3);

/// How long a lease lasts that is handed to the next waiter, unless the waiter renews it or asks.
///
/// Neither longer, as the waiter may have died, nor shorter, as it trusts that much, see [`Hint`].
pub const GRANT_TTL: Duration = Duration::from_secs(3);

/// Decides who holds a key.
///
/// Every request is idempotent for its owner, since a client repeats what got no answer. All time
/// is the store's own. The manager limits every request by a timer, unless the store does so
/// itself, see [`gives_up_after`](Self::gives_up_after).
///
/// # Errors
///
/// Every request fails with a [`StoreError`] when the store did not tell, see [`StoreErrorKind`].
///
/// # Cancel safety
///
/// The manager drops a request's future at any await when its time is up or its caller is gone.
/// What was sent by then may be carried out, before anything that is sent later for that owner.
/// [`memory::MemoryStore`] is the reference; the conformance suite of this
/// project's tests shows what any store has to do.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use dlock::{
///     ClientId, LockKey, LockManager, LockStore, OwnerId, StoreError,
///     store::{
///         AcquireRequest, Acquisition, HintSink, Released, RenewRequest, Renewal, memory::MemoryStore,
///     },
/// };
///
/// /// Another store, whose questions are counted. A store of your own answers them instead.
/// struct Counted<S> {
///     store: S,
///     asked: Arc<AtomicUsize>,
/// }
///
/// impl<S: LockStore> LockStore for Counted<S> {
///     async fn acquire(&self, request: AcquireRequest<'_>) -> Result<Acquisition, StoreError> {
///         self.asked.fetch_add(1, Ordering::Relaxed);
///         self.store.acquire(request).await
///     }
///
///     async fn renew(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
///         self.store.renew(request).await
///     }
///
///     async fn release(&self, key: &LockKey, owner: OwnerId) -> Result<Released, StoreError> {
///         self.store.release(key, owner).await
///     }
///
///     fn attach(&self, client: ClientId, hints: HintSink) {
///         self.store.attach(client, hints);
///     }
///
///     fn hands_on(&self) -> bool {
///         self.store.hands_on()
///     }
/// }
///
/// let asked = Arc::new(AtomicUsize::new(0));
/// let store = Counted { store: MemoryStore::new(), asked: asked.clone() };
/// let manager = LockManager::builder().store(store)?;
/// manager.lock("order:42").run(async |_lease| ()).await?;
/// assert_eq!(asked.load(Ordering::Relaxed), 1);
/// # Ok(()) }
/// ```
pub trait LockStore: Send + Sync + 'static {
    /// Asks for the key.
    ///
    /// Already the owner's: the TTL starts anew and the same fence is returned. Free and nobody
    /// living waits before this owner: it becomes the holder, with a fence greater than every
    /// earlier one. Free but somebody waits: the first of them is made the holder for [`GRANT_TTL`]
    /// and told. Held: as [`AcquireRequest::queue`] says, the owner enters the queue or renews its
    /// place.
    fn acquire(
        &self,
        request: AcquireRequest<'_>,
    ) -> impl Future<Output = Result<Acquisition, StoreError>> + Send;

    /// Starts the TTL anew and sets the label, if the key is the owner's.
    fn renew(
        &self,
        request: RenewRequest<'_>,
    ) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// Renews several leases; the answers are in the order of the requests, and there after `limit`
    /// at the latest, with [`StoreErrorKind::TimedOut`] where nothing is known.
    ///
    /// If not given, each is asked for by [`renew`](Self::renew), all at the same time: one that
    /// gets no answer must not keep the others from being renewed. A store that can ask for all of
    /// them at once should.
    fn renew_all(
        &self,
        requests: &[RenewRequest<'_>],
        limit: Duration,
    ) -> impl Future<Output = Vec<Result<Renewal, StoreError>>> + Send {
        let renewals = requests.iter().map(move |request| async move {
            timeout(limit, self.renew(*request))
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
        });
        join_all(renewals)
    }

    /// Gives up the key or the place in its queue. The first living waiter becomes the holder, for
    /// [`GRANT_TTL`], and is told; or is only told, see [`Queue::ForNotice`].
    fn release(
        &self,
        key: &LockKey,
        owner: OwnerId,
    ) -> impl Future<Output = Result<Released, StoreError>> + Send;

    /// Raises the fence of a key from `from` to `to`, if the key is the owner's and its fence one of
    /// these: whatever is granted from now on is greater than `to`. The TTL goes on as it was.
    ///
    /// With any other fence it was granted anew since: then nothing is changed.
    ///
    /// Only a [`quorum`] needs it of the stores that it is made of. If not given, it answers
    /// [`StoreErrorKind::Unsupported`].
    fn raise(
        &self,
        key: &LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> impl Future<Output = Result<Raised, StoreError>> + Send {
        let _: (&LockKey, OwnerId, u64, u64) = (key, owner, from, to);
        async {
            let message = "a store that cannot raise fences cannot be part of a quorum";
            Err(StoreError::new(StoreErrorKind::Unsupported, message).unsent())
        }
    }

    /// Releases without waiting and without a runtime, for a store that can; `false` if it cannot.
    ///
    /// The last resort when the runtime ends before the guard. If not given, it cannot.
    fn release_at_once(&self, key: &LockKey, owner: OwnerId) -> bool {
        let _: (&LockKey, OwnerId) = (key, owner);
        false
    }

    /// Takes the sink to which hints for `client` go, once for each client. A store without
    /// hints ignores it: its waiters then ask again at their own pace.
    fn attach(&self, client: ClientId, hints: HintSink) {
        drop((client, hints));
    }

    /// After what time the store itself gives up on a request, with
    /// [`StoreErrorKind::TimedOut`] or a kind that says more.
    ///
    /// A manager then sets no timer of its own for a limit that is not shorter. If not given, the
    /// store never does.
    fn gives_up_after(&self) -> Option<Duration> {
        None
    }

    /// Whether [`release`](Self::release) makes the first waiter the holder.
    ///
    /// If not given, it does. Where it does not, a process that has had the lock for a while lets some
    /// milliseconds pass before its next task asks, so that others can.
    fn hands_on(&self) -> bool {
        true
    }

    /// By how much two clocks may disagree over `ttl`; the holder stops trusting its lease that
    /// much earlier.
    fn drift(&self, ttl: Duration) -> Duration {
        ttl / 100 + Duration::from_millis(2)
    }
}

/// What an owner asks for.
///
/// Whoever asks is best served by [`new`](Self::new) and what differs from it; whoever passes
/// requests on should name all fields, and then learns from the compiler of a new one.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{
///     ClientId, LockKey, LockStore, OwnerId, SystemRandom,
///     store::{AcquireRequest, Acquisition, Queue, Released, memory::MemoryStore},
/// };
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let client = ClientId::new(&SystemRandom);
/// let [one, other] = [1, 2].map(|attempt| OwnerId::new(client, attempt));
/// let ttl = Duration::from_secs(30);
///
/// let granted = store.acquire(AcquireRequest::new(&key, one, ttl)).await?;
/// assert!(matches!(granted, Acquisition::Granted { .. }));
/// let question = AcquireRequest { queue: Queue::ForLease, ..AcquireRequest::new(&key, other, ttl) };
/// let busy = store.acquire(question).await?;
/// assert!(matches!(busy, Acquisition::Busy(holder) if holder.position == Some(0)));
/// assert_eq!(store.release(&key, one).await?, Released::WasHeld);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AcquireRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// Who asks.
    pub owner: OwnerId,
    /// How long the lease lasts without a sign of life.
    pub ttl: Duration,
    /// Whether to wait in the queue if the key is held, and what for.
    pub queue: Queue,
    /// What to tell others about the holder: printable ASCII without spaces.
    pub label: &'a str,
    /// The function that asks, as in [`LockSite::function`](crate::LockSite::function): printable
    /// ASCII without spaces and `#`. Empty for none.
    pub function: &'a str,
    /// What a new fence is to be at least, in place of the store's own clock, so that several
    /// stores count the same one. The store still counts a greater one if this was reached before.
    /// `None` for the store's own clock.
    pub proposal: Option<u64>,
}

impl<'a> AcquireRequest<'a> {
    /// A question without a place in the queue, a label and a proposal.
    #[must_use]
    pub fn new(key: &'a LockKey, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            key,
            owner,
            ttl,
            queue: Queue::No,
            label: "",
            function: "",
            proposal: None,
        }
    }
}

/// What an owner waits for in the queue of a key that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// For nothing: it has no place.
    #[default]
    No,
    /// To be made the holder when it is the first.
    ForLease,
    /// To be told when the key is free and it is the first. It is told by a [`Hint`] with a fence of
    /// 0 and leaves the queue by that. It gets no precedence: whoever asks first has the key.
    ///
    /// For one of several stores, which must not decide by itself who is next.
    ForNotice,
}

/// What an owner asks for that holds a lease.
#[derive(Clone, Copy, Debug)]
pub struct RenewRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// Who asks.
    pub owner: OwnerId,
    /// How long the lease lasts from now on without another sign of life.
    pub ttl: Duration,
    /// What to tell others about the holder, as in [`AcquireRequest::label`]; empty to leave it as
    /// it is. A lease that a releaser has handed to a waiter has no label before its first renewal.
    pub label: &'a str,
    /// The function that holds it, as in [`AcquireRequest::function`]; it goes with the label.
    pub function: &'a str,
}

/// The answer to [`LockStore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// The key is the owner's for the TTL it asked for.
    Granted {
        /// Strictly greater than the fence of every earlier holder of this key.
        fence: u64,
    },
    /// Somebody else holds it.
    Busy(Holder),
}

/// What is known of the one who holds a key.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockError;
///
/// /// What to tell whoever finds the lock held.
/// fn why(error: &LockError) -> Option<String> {
///     let LockError::Busy { holder, .. } = error else {
///         return None;
///     };
///     let who = holder.label.as_deref().unwrap_or("somebody else");
///     Some(format!("{who} is at it, until {:?} from now at least", holder.ttl?))
/// }
/// # let _: fn(&LockError) -> Option<String> = why;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What the holder said of itself, such as `billing@host-3/4711`.
    pub label: Option<String>,
    /// The function under the attribute that it is held by: `shop::billing::settle`. `None` for a lock
    /// that was taken otherwise. A lease that a process has handed from one function to another shows
    /// the earlier one until its next renewal.
    pub function: Option<String>,
    /// When its lease ends unless it is renewed; `None` if it never does, which only a foreign
    /// client can cause.
    pub ttl: Option<Duration>,
    /// The asker's place in the queue, 0 being the next; `None` if it does not wait.
    pub position: Option<u64>,
    /// Whether the label is this manager's own: another task of the process holds it, or a guard
    /// that it keeps.
    pub is_here: bool,
    /// The fence of its lease; 0 if that is not known. Stores of a quorum tell by it and the label
    /// whether they mean the same holder.
    pub fence: u64,
    /// The last fence given, at the moment of this answer: not less than that of the holder it
    /// tells of, and less than any that is given later.
    ///
    /// A waiter knows by it which [`Hint`] is about a grant that came after its question. Too low,
    /// and it would take an old grant, which has run out, for a new one.
    pub last_fence: u64,
}

impl Holder {
    /// This process itself, of whose lease nothing is known.
    pub(crate) fn here() -> Self {
        Self {
            is_here: true,
            ..Self::default()
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = |f: &mut fmt::Formatter<'_>| match &self.function {
            Some(function) => write!(f, " in `{function}`"),
            None => Ok(()),
        };
        match &self.label {
            Some(label) if self.is_here => {
                write!(f, "held by this process (`{label}`")?;
                function(f)?;
                f.write_str("): by another task, a kept guard or a `min_hold`")?;
            }
            Some(label) => {
                write!(f, "held by `{label}`")?;
                function(f)?;
            }
            None => f.write_str("held by another client")?,
        }
        match self.ttl {
            None if self.is_here => Ok(()),
            Some(ttl) => write!(f, ", whose lease ends in {ttl:.0?} unless it is renewed"),
            None => f.write_str(" without a time to live: delete the key if its writer is gone"),
        }
    }
}

/// The answer to [`LockStore::renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The TTL has started anew.
    Renewed,
    /// The key is not the owner's: the lease is lost.
    NotOwner,
}

/// The answer to [`LockStore::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The key was the owner's until now.
    WasHeld,
    /// The key was not the owner's, who has at most left the queue.
    WasGone,
}

/// The answer to [`LockStore::raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The key is the owner's, and its fence is not less than that any more.
    Raised,
    /// The key is not the owner's, or is by another grant, and nothing was changed.
    NotOwner,
}

/// A word from the store that a waiter should ask again, or that it has been made the holder.
///
/// Hints may be lost, late or repeated. So a waiter believes one only together with a question of
/// its own that was answered with [`Acquisition::Busy`] and a [`last_fence`](Holder::last_fence)
/// below the hint's: then the grant came after that question was sent, and lasts for
/// [`GRANT_TTL`] from then on at least. Because of any other hint it only asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint<'a> {
    /// The lock.
    pub key: &'a str,
    /// The waiter.
    pub owner: OwnerId,
    /// The fence it was granted with; 0 if it was not granted, and only should ask.
    pub fence: u64,
}

/// Where a store sends hints: into one manager, as long as that lives.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::sync::Mutex;
/// use dlock::{OwnerId, store::{Hint, HintSink}};
///
/// /// The managers that use a store.
/// #[derive(Default)]
/// struct Sinks(Mutex<Vec<HintSink>>);
///
/// impl Sinks {
///     /// The key is free, or has been made the owner's: `fence` says which.
///     fn tell(&self, key: &str, owner: OwnerId, fence: u64) {
///         let hint = Hint { key, owner, fence };
///         let mut sinks = self.0.lock().expect("nobody panics with it");
///         sinks.retain(|sink| sink.hint(&hint));
///     }
///
///     /// The connection was lost, and with it what was said meanwhile.
///     fn reconnected(&self) {
///         let mut sinks = self.0.lock().expect("nobody panics with it");
///         sinks.retain(HintSink::look_again);
///     }
/// }
/// # Sinks::default().reconnected();
/// # let _ = Sinks::tell;
/// ```
#[derive(Clone)]
pub struct HintSink(Arc<dyn TakesHints>);

impl HintSink {
    pub(crate) fn new(target: Arc<dyn TakesHints>) -> Self {
        Self(target)
    }

    /// Tells the waiter; never blocks. `false` once the manager is gone: drop the sink then.
    #[must_use = "a sink whose manager is gone is to be dropped"]
    pub fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.hint(hint)
    }

    /// Hints may have been missed: every waiter asks again. `false` once the manager is gone.
    #[must_use = "a sink whose manager is gone is to be dropped"]
    pub fn look_again(&self) -> bool {
        self.0.look_again()
    }
}

impl fmt::Debug for HintSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HintSink")
    }
}

/// The manager's side of a [`HintSink`].
pub(crate) trait TakesHints: Send + Sync {
    fn hint(&self, hint: &Hint<'_>) -> bool;
    fn look_again(&self) -> bool;
}
