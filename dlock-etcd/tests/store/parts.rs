//! The parts in which all locks are read, while others come and go.

use dlock_admin::{Inspect, LockInfo};
use dlock_etcd::admin::EtcdInspector;
use dlock_runtime::{LockKey, store::StoreOptions};
use dlock_testkit::{EtcdMake, EtcdServer};
use tokio::{runtime::Handle, task::block_in_place};

use crate::quiet::LONG;

const NAMESPACE: &str = "parts";

/// The number of claims that a request reads.
const MOST: usize = 500;

/// Returns claim `number` on a key, as dlock writes it.
fn claim(key: &str, number: usize) -> (String, String) {
    let name = format!("{NAMESPACE}/{key}/{number:032x}.1");
    (name, "1 1000 exclusive - - - h1 -".to_owned())
}

/// Locks with a holder and a waiter, but for the first one: each request ends between two claims on a key. One of them has more
/// claims than a request reads.
fn locks() -> Vec<(String, String)> {
    let mut claims = vec![claim("k:0000", 1)];
    for number in 1..700 {
        let key = format!("k:{number:04}");
        let last = if number == 300 { 601 } else { 2 };
        claims.extend((1..=last).map(|number| claim(&key, number)));
    }
    claims
}

/// Other locks come, before the key, beside it and behind it. A claim on the key itself comes, too.
async fn come(server: &EtcdServer, key: &str, name: &str) {
    let keys = [
        format!("a:{name}"),
        format!("{key}-{name}"),
        format!("{key}:{name}"),
        format!("z:{name}"),
    ];
    let mut claims: Vec<_> = keys.iter().map(|key| claim(key, 1)).collect();
    claims.push(claim(key, 1000));
    server.put_all(&claims).await;
}

/// Reads all locks in parts. With `others`, some come and go between any two parts.
async fn parts(inspector: &EtcdInspector, others: Option<&EtcdServer>) -> Vec<Vec<LockInfo>> {
    let mut parts: Vec<Vec<LockInfo>> = Vec::new();
    let mut part = |locks: Vec<LockInfo>| {
        if let (Some(server), Some(last)) = (others, locks.last()) {
            let change = async {
                server.delete(&format!("{NAMESPACE}/a:")).await;
                server.delete(&format!("{NAMESPACE}/z:first")).await;
                come(server, &last.key, &format!("part{}", parts.len())).await;
            };
            block_in_place(|| Handle::current().block_on(change));
        }
        parts.push(locks);
    };
    let rest = inspector.overview_in_parts(&mut part).await.unwrap();
    assert!(rest.locks.is_empty());
    parts
}

/// What does not change, in the order of the keys.
fn seen(parts: &[Vec<LockInfo>]) -> Vec<(&str, usize, usize)> {
    let locks = parts.iter().flatten();
    let mut seen: Vec<_> = locks
        .map(|lock| (&*lock.key, lock.holder_count, lock.waiter_count))
        .collect();
    seen.sort_unstable();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_short_and_add_up_to_all_locks_while_others_come_and_go() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    server.put_all(&locks()).await;
    let mut options = StoreOptions::default();
    options.namespace = NAMESPACE.to_owned();
    options.response_timeout = LONG;
    options.connect_timeout = LONG;
    let inspector = EtcdInspector::connect(&server.url(), &options)
        .await
        .unwrap();
    inspector.lift_limit();
    let whole = [inspector.locks(None).await.unwrap()];
    let whole = seen(&whole);
    assert_eq!(whole.len(), 700);
    assert_eq!(
        whole[299..302],
        [("k:0299", 1, 1), ("k:0300", 1, 600), ("k:0301", 1, 1)]
    );
    let undisturbed = parts(&inspector, None).await;
    // 500 claims in each, or those before the crowd and all of it.
    let lengths: Vec<_> = undisturbed.iter().map(Vec::len).collect();
    assert_eq!(lengths, [251, 50, 250, 149]);
    assert_eq!(seen(&undisturbed), whole);

    come(server, "k:0000", "first").await;
    let disturbed = parts(&inspector, Some(server)).await;
    assert!(disturbed.iter().all(|part| part.len() <= MOST));
    let mut all = seen(&disturbed);
    let count = all.len();
    all.dedup_by_key(|it| it.0);
    assert_eq!(all.len(), count, "none comes twice");
    let (lasting, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, ..)| key.len() == 6);
    let expected = whole.iter().map(|it| {
        if it.0 == "k:0000" {
            ("k:0000", 1, 1)
        } else {
            *it
        }
    });
    assert_eq!(lasting, expected.collect::<Vec<_>>());
    let others: Vec<_> = others.iter().map(|it| it.0).collect();
    assert!(
        others.contains(&"a:first") && !others.contains(&"z:first"),
        "{others:?}"
    );
    let first_end = &disturbed[0].last().unwrap().key;
    for behind in [&*format!("{first_end}:part0"), "z:part1"] {
        assert!(others.contains(&behind), "{behind}: {others:?}");
    }
    server.delete(&format!("{NAMESPACE}/")).await;
}

#[tokio::test]
async fn given_locks_are_read_once_each_in_the_order_of_their_keys() {
    let server = EtcdServer::shared(EtcdMake::Usual).await;
    let mut options = StoreOptions::default();
    options.namespace = "given".to_owned();
    let claims: Vec<_> = (0..250)
        .map(|number| {
            let (name, value) = claim(&format!("k:{number:03}"), 1);
            (name.replacen(NAMESPACE, "given", 1), value)
        })
        .collect();
    server.put_all(&claims).await;
    let inspector = EtcdInspector::connect(&server.url(), &options)
        .await
        .unwrap();
    inspector.lift_limit();
    let key = |number: usize| LockKey::new(format!("k:{number:03}")).unwrap();
    // Some are free.
    let mut keys: Vec<_> = (0..300).rev().map(key).collect();
    keys.push(key(7));
    let locks = inspector.locks_of(&keys).await.unwrap();
    let found: Vec<_> = locks.iter().map(|it| it.key.clone()).collect();
    let expected: Vec<_> = (0..250).map(|it| key(it).to_string()).collect();
    assert_eq!(found, expected);
    let one = inspector.lock(&key(7)).await.unwrap().unwrap();
    assert_eq!((&*one.key, one.holder_count), ("k:007", 1));
    assert!(inspector.lock(&key(299)).await.unwrap().is_none());
    server.delete("given/").await;
}
