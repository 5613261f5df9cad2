//! Many sections while connections break and a leader is killed.

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sections_never_overlap_while_connections_break_and_a_leader_is_killed() {
    let world = World::lent("contended").await;
    dlock_faults::contention::sections_never_overlap(&world).await;
}
