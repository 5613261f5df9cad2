//! Bodies that block their threads, on every shape of runtime: they cost no holder a lease.

mod bodies;
mod reports;
mod several_runtimes;

use std::time::Duration;

use dlock::LockManager;
use dlock_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};

/// Long enough for a machine that stands still for a second or two.
const TTL: Duration = Duration::from_secs(4);

/// The time for which a body blocks: nothing but renewals gets a lease past it.
const BLOCKED: Duration = Duration::from_secs(8);

/// The shape of a runtime: so many workers, or one thread that is all there is.
fn runtime(workers: Option<usize>) -> Runtime {
    let mut builder = match workers {
        Some(workers) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(workers);
            builder
        }
        None => Builder::new_current_thread(),
    };
    builder.enable_all().build().unwrap()
}

/// The store of the locks, for as long as this lives.
enum Place {
    Memory,
    Redis(RedisServer),
}

impl Place {
    fn redis() -> Self {
        Self::Redis(runtime(None).block_on(RedisServer::start()))
    }

    /// A manager on the runtime of the caller.
    async fn manager(&self) -> LockManager {
        let builder = LockManager::builder().ttl(TTL);
        match self {
            Self::Memory => builder.connect("memory://").await.unwrap(),
            Self::Redis(server) => builder.connect(&server.url()).await.unwrap(),
        }
    }
}
