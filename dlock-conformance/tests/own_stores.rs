//! The suite over the library's stores that need no server, as a whole and in parallel.

use std::sync::Arc;

use dlock_conformance::{Level, Suite};
use dlock_runtime::store::{memory::MemoryStore, quorum::Quorum};

#[tokio::test(start_paused = true)]
async fn memory() {
    let store = MemoryStore::new();
    Suite::new(Level::Grants).run_node(&store).await.assert();
    Suite::new(Level::Grants)
        .alone()
        .run_node(&store)
        .await
        .assert();
    assert!(store.is_empty(), "it leaves nothing");
}

#[tokio::test(start_paused = true)]
async fn a_quorum_in_memory() {
    let nodes = [(); 5].map(|()| MemoryStore::new());
    let quorum = Quorum::of(nodes.clone()).expect("five are enough");
    Suite::new(Level::Queue).run(&quorum).await.assert();
}

#[tokio::test]
#[should_panic(expected = "run_node")]
async fn a_node_needs_the_requests_of_a_node() {
    drop(Suite::new(Level::Node).run(&MemoryStore::new()).await);
}

#[tokio::test]
#[should_panic(expected = "run_node")]
async fn a_case_of_a_node_needs_the_requests_of_a_node() {
    let suite = Suite::new(Level::Grants).only("a_notice_has_no_fence");
    drop(suite.run(&MemoryStore::new()).await);
}

#[tokio::test(start_paused = true)]
async fn a_shared_store() {
    let store = Arc::new(MemoryStore::new());
    Suite::new(Level::Grants).run_node(&store).await.assert();
    assert!(store.is_empty(), "it leaves nothing");
}
