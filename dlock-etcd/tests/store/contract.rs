//! The contract of stores, against ensembles of both versions of etcd.

use std::time::Duration;

use dlock_conformance::{Level, Suite};
use dlock_etcd::EtcdStore;
use dlock_runtime::store::StoreOptions;
use dlock_testkit::{EtcdEnsemble, EtcdMake, EtcdOptions};

async fn keeps_the_contract(make: EtcdMake) {
    let ensemble = EtcdEnsemble::start_with(EtcdOptions::new().make(make)).await;
    let mut options = StoreOptions::default();
    // The machine of the tests is slow at times.
    options.response_timeout = Duration::from_secs(10);
    let store = EtcdStore::open(&ensemble.url(), &options).unwrap();
    let suite = Suite::new(Level::Grants).brief(Duration::from_secs(2));
    suite
        .limit(Duration::from_secs(60))
        .run(&store)
        .await
        .assert();
}

#[tokio::test]
async fn etcd_keeps_the_contract() {
    keeps_the_contract(EtcdMake::Usual).await;
}

#[tokio::test]
async fn the_oldest_etcd_keeps_the_contract() {
    keeps_the_contract(EtcdMake::Old).await;
}
