//! Servers whose disks are slow.

use std::time::Duration;

use dlock_faults::{Together, slow};
use dlock_testkit::{Disk, ZooKeepers};

use crate::world::World;

/// Longer than a write takes otherwise, and shorter than the time for an answer.
const DELAY: Duration = Duration::from_millis(300);

#[tokio::test]
async fn locks_go_on_while_the_disks_of_all_servers_are_slow() {
    let disk = Disk::new();
    let world = World::new(Box::new(ZooKeepers::start_on(&disk).await), "slow");
    let processes = world.two_at(0).await;
    disk.slow_down(DELAY);
    slow::locks_go_on(&world, processes, DELAY).await;
}
