//! The peers: the requests of the measuring loop, and the choice of a peer.

mod by_hand;
mod dlock;
mod mutex;
mod raw;
mod rslock;
mod scripts;

use crate::Failure;
use crate::arguments::{Mode, Peer, Settings};
use crate::measure;

pub(crate) use by_hand::{client, connect, connect_to_each};
pub(crate) use dlock::builder;

/// How long a server keeps a lock without a release.
const TTL_MS: u64 = 10_000;

/// Takes locks and gives them back.
pub(crate) trait Locker: Clone + Send + Sync + 'static {
    type Held: Send;

    /// Waits until the lock is its own.
    fn acquire(&self, key: &str) -> impl Future<Output = Result<Self::Held, Failure>> + Send;

    fn release(&self, held: Self::Held) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Measures the peer that is meant.
pub(crate) async fn run(settings: &Settings) -> Result<(), Failure> {
    match settings.peer.peer {
        Peer::Dlock => with(settings, dlock::Dlock::connect(settings).await?).await,
        Peer::Memory => with(settings, dlock::Dlock::memory(settings)?).await,
        Peer::Raw => with(settings, raw::Raw::connect(settings).await?).await,
        Peer::Scripts => with(settings, scripts::Scripts::connect(settings).await?).await,
        Peer::Rslock => with(settings, rslock::Rslock::new(settings)?).await,
        Peer::Mutex => with(settings, mutex::Mutexes::default()).await,
        Peer::Publish => Err("`peer=publish` takes no lock".into()),
    }
}

async fn with<L: Locker>(settings: &Settings, locker: L) -> Result<(), Failure> {
    match settings.mode {
        Mode::Hold => measure::hold(settings, locker).await,
        Mode::Bench | Mode::Wait | Mode::Many => measure::bench(settings, locker).await,
    }
}
