//! The contract of stores.

use dlock_conformance::{Level, Suite};
use dlock_testkit::ZooKeepers;

use crate::world::{LIMIT, SESSION, store};

#[tokio::test]
async fn zookeeper_keeps_the_contract() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let suite = Suite::new(Level::Grants).limit(LIMIT);
    suite.run(&store).await.assert();
}
