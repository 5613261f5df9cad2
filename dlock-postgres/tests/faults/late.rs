//! Acquire requests that reach the server after the release of their owner, because the release took another connection.

use std::time::Duration;

use dlock_faults::Process;
use dlock_testkit::{PostgresServer, Proxy, eventually, hosts};

use crate::world::{DEADLINE, REPEATED, World, connect};

const KEY: &str = "order:42";

/// Far more than the time after which a late request is released again.
const TTL: Duration = Duration::from_secs(600);

/// A server at two places, of which the first can hold a request back.
struct Late {
    world: World<&'static PostgresServer>,
    first: Proxy,
    second: Proxy,
    manager: Process,
}

impl Late {
    async fn new() -> Self {
        let world = World::shared().await;
        let [first, second] = [(); 2].map(|()| Proxy::start(world.server.port()));
        let hosts = hosts([first.port(), second.port()]);
        let manager = connect(&format!("postgres://postgres@{hosts}/{}", world.database)).await;
        first.freeze_before_request(KEY);
        Self {
            world,
            first,
            second,
            manager,
        }
    }

    /// Waits until the request is held back, and sends what comes after it to the second place.
    async fn is_held_back(&self) {
        eventually(DEADLINE, "the request is held back", async || {
            self.first.holds_request(KEY)
        })
        .await;
        self.first.refuse();
    }

    /// Gives a request up when its connection was: a release before that would come behind it on the same connection.
    async fn gives_up(&self) {
        let acquiring = self.manager.lock(KEY).ttl(TTL).wait(4 * DEADLINE).acquire();
        let is_replaced = async {
            self.is_held_back().await;
            eventually(DEADLINE, "the next connection is made", async || {
                self.second.accepted_connections() > 0
            })
            .await;
        };
        tokio::select! {
            acquired = acquiring => drop(acquired.unwrap()),
            () = is_replaced => {}
        }
    }

    /// Lets the request arrive, and waits until the server has carried it out.
    async fn arrives(&self, carried_out: &str) {
        assert!(self.first.holds_request(KEY));
        let before = self.world.number(carried_out).await;
        self.first.thaw();
        let is_right = |now| now > before;
        let world = &self.world;
        world
            .until("it is carried out", carried_out, is_right)
            .await;
    }
}

/// The fence of the key: each lease counts one.
const FENCE: &str = "SELECT max(last_fence) FROM dlock.turn";

/// The number of places in queues so far.
const PLACES: &str = "SELECT pg_sequence_last_value('dlock.waiter_place_seq')";

#[tokio::test]
async fn a_lease_that_begins_after_its_release_is_released_again() {
    let late = Late::new().await;
    late.gives_up().await;
    late.manager.is_idle().await;
    late.arrives(FENCE).await;
    late.world.nothing_is_left().await;
}

#[tokio::test]
async fn a_place_in_the_queue_that_is_taken_after_its_release_is_released_again() {
    let late = Late::new().await;
    let other = late.world.manager().await;
    let held = other.holds(KEY, TTL).await;
    late.gives_up().await;
    late.manager.is_idle().await;
    late.arrives(PLACES).await;
    eventually(REPEATED, "the owner is released again", async || {
        late.world.waiters().await == 0
    })
    .await;
    held.release().await.unwrap();
    late.world.nothing_is_left().await;
}

/// The owner has got the lease by a request that was repeated, and the first one comes after its release.
#[tokio::test]
async fn a_repeated_request_that_arrives_after_the_release_is_released_again() {
    let late = Late::new().await;
    let acquiring = late.manager.lock(KEY).ttl(TTL).wait(4 * DEADLINE).acquire();
    let (acquired, ()) = tokio::join!(acquiring, late.is_held_back());
    let guard = acquired.unwrap();
    assert_eq!(late.world.holders().await, 1);
    guard.release().await.unwrap();
    late.manager.is_idle().await;
    late.arrives(FENCE).await;
    late.world.nothing_is_left().await;
}
