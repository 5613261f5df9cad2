//! Members whose disks are slow.

use std::time::Duration;

use dlock_faults::slow;
use dlock_testkit::{EtcdEnsemble, EtcdOptions};

use crate::world::{DEADLINE, TTL, World, builder, connect_by};

/// Longer than a write takes otherwise. A request makes several, one after the other.
const DELAY: Duration = Duration::from_millis(200);

#[tokio::test]
async fn locks_go_on_while_the_disks_of_all_members_are_slow() {
    let world = World(EtcdEnsemble::start_with(EtcdOptions::new().slow_disk(DELAY)).await);
    let url = world.0.url();
    let process = async || {
        let builder = builder().ttl(TTL).wait(DEADLINE);
        connect_by(builder.response_timeout(slow::HELD / 3), &url).await
    };
    let processes = tokio::join!(process(), process());
    slow::locks_go_on(&world, processes.into(), DELAY).await;
}
