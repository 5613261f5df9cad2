//! Locks in memcached: a store of one's own, and the recipe for the next one.
//!
//! # The recipe
//!
//! 1. **Choose the level.** The documentation of [`LockStore`](dlock::store::LockStore) lists the levels of a store. The minimal level needs
//!    three requests: acquire, renew and release. Waiters then poll.
//! 2. **Make each change conditional.** Here, a key is added only if it is absent, and replaced or deleted only if its
//!    version, the `cas` number, is the one that was read. A request that arrives late then changes nothing.
//! 3. **Count the fence while the owner holds the key**, and keep it with the key. Two owners that count first and
//!    acquire later could hold the key in the wrong order.
//! 4. **Let leases last too long rather than too short.** The holder measures its lease from before the request.
//! 5. **Return an error whenever the outcome is unknown.** *Busy* and *not the owner* are answers. dlock releases what
//!    a failed request may have acquired.
//! 6. **Answer in order, and within a time limit.** Many clients send requests over several connections, where one overtakes
//!    another: a release before its acquire. Here, a thread carries out one request after the other. It also goes on while
//!    the threads of the callers are blocked, so that leases are renewed then.
//! 7. **Run the suite** of `dlock-conformance` against a real server, as `tests/memcached.rs` does, and register a
//!    [`StoreScheme`] for URLs.
//!
//! ```no_run
//! use custom_store::Memcached;
//! use dlock::LockManager;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = LockManager::builder().scheme("memcached", Memcached);
//! let manager = builder.connect("memcached://127.0.0.1:11211").await?;
//! manager.lock("order:42").run(async |_lease| println!("one process at a time")).await?;
//! # Ok(()) }
//! ```
//!
//! # What memcached cannot do
//!
//! memcached is a cache, and its locks are for work that may at worst be done twice:
//!
//! - A full server deletes locks before their time. It evicts entries; started with `-M` it does not, but any request for a
//!   key that finds no memory may delete its lock.
//! - A restart and `flush_all` forget every lock. Two owners can then hold a key until the first one renews.
//! - The server reads its clock once a second. A lease that begins in the first moments after the server was paused can be too
//!   short by the length of the pause.
//! - The counter of the fence can be lost as well, and ends after 30 days without a lock. It starts again from the client's clock:
//!   fences may decrease if clocks differ by more than the age of the counter.
//! - There is no queue and no wake-up message: waiters poll, and come in no order.
//! - A request that timed out may be carried out after its release. The key is then held until the TTL ends.

mod store;

use dlock::{
    ConnectError,
    store::{StoreOptions, StoreScheme},
};
use memcache::exp::MetaClient;
use url::Url;

pub use crate::store::MemcachedStore;

/// The scheme of URLs `memcached://host:11211`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcached;

impl StoreScheme for Memcached {
    type Store = MemcachedStore;

    fn open(&self, url: &str, options: &StoreOptions) -> Result<MemcachedStore, ConnectError> {
        let address = address_in(url).ok_or_else(|| ConnectError::InvalidUrl {
            // The rest is not shown, since it may contain a password.
            url: "memcached://…".to_owned(),
            reason: "write `memcached://host` or `memcached://host:port` and nothing else"
                .to_owned(),
        })?;
        Ok(MemcachedStore::new(address, options))
    }

    async fn ready(&self, store: &MemcachedStore, _: &StoreOptions) -> Result<(), ConnectError> {
        let answered = store.run(MetaClient::noop).await;
        let url = || format!("memcached://{}", store.address);
        answered.map_err(|reason| ConnectError::Unavailable { url: url(), reason })
    }
}

fn address_in(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let is_bare = url.as_str().trim_end_matches('/') == format!("memcached://{host}{port}");
    is_bare.then(|| format!("{host}:{}", url.port().unwrap_or(11211)))
}
