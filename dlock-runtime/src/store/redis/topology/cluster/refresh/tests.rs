//! Tests of outdated maps from isolated nodes, and of refused logins.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dlock_testkit::eventually;

use super::*;
use crate::store::redis::{
    RedisConfig,
    config::url::{Address, Location},
    fake::{Fake, courtesy},
    net::home::Home,
    topology::cluster::Cluster,
};

const LONG: Duration = Duration::from_secs(60);

fn over(fakes: &[&Fake]) -> Cluster {
    let hosts: Vec<_> = fakes
        .iter()
        .map(|fake| format!("127.0.0.1:{}", fake.port))
        .collect();
    let url = format!("redis-cluster://{}", hosts.join(","));
    let location = Location::parse(&url).unwrap();
    let config = Arc::new(RedisConfig::new(url));
    let home = Home::on(tokio::runtime::Handle::current(), LONG);
    let events = Events::new(location.to_string());
    Cluster::start(location, &config, &Arc::default(), &home, events)
}

/// All slots belong to the first node, and the others are its replicas.
fn slots(ports: [u16; 3]) -> String {
    let node = |port| format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    let nodes = ports.map(node).concat();
    format!("*1\r\n*5\r\n:0\r\n:16383\r\n{nodes}")
}

#[tokio::test]
async fn a_node_that_was_cut_off_does_not_lead_back() {
    let ports = Arc::new(std::sync::Mutex::new(None::<[u16; 3]>));
    let rounds = Arc::new(AtomicUsize::new(0));
    let node = async |is_stale: bool| {
        let (ports, rounds) = (ports.clone(), rounds.clone());
        Fake::start(move |words| {
            let known = *ports.lock().unwrap();
            let rounds = rounds.clone();
            async move {
                match (words[0].as_str(), known) {
                    ("CLUSTER", Some([stale, new, other])) if is_stale => {
                        rounds.fetch_add(1, Ordering::Relaxed);
                        slots([stale, new, other])
                    }
                    ("CLUSTER", Some([stale, new, other])) => {
                        // The isolated node always answers first.
                        sleep(Duration::from_millis(20)).await;
                        slots([new, other, stale])
                    }
                    _ => courtesy(&words),
                }
            }
        })
        .await
    };
    let (stale, new, other) = (node(true).await, node(false).await, node(false).await);
    *ports.lock().unwrap() = Some([stale.port, new.port, other.port]);
    let cluster = over(&[&stale, &new, &other]);
    let owner = || {
        let owner = cluster.shared.read(|map| map.owner(0));
        owner.filter(|it| it.address == Address::Tcp("127.0.0.1".into(), new.port))
    };
    eventually(LONG, "two nodes agree", async || owner().is_some()).await;
    let member = owner().expect("it was waited for");
    eventually(LONG, "it is connected", async || member.link().is_some()).await;
    let (logins, before) = (new.logins(), rounds.load(Ordering::Relaxed));
    eventually(LONG, "some rounds have passed", async || {
        cluster.shared.doubt();
        assert!(owner().is_some(), "it leads back");
        rounds.load(Ordering::Relaxed) >= before + 5
    })
    .await;
    assert!(!member.is_gone());
    assert_eq!(new.logins(), logins, "there is a connection already");
}

#[tokio::test]
async fn who_is_refused_for_good_asks_one_node_at_a_time() {
    let node = async || {
        Fake::start(|words| async move {
            match words[0].as_str() {
                "HELLO" => "-WRONGPASS invalid username-password pair\r\n".to_owned(),
                _ => courtesy(&words),
            }
        })
        .await
    };
    let fakes = [node().await, node().await, node().await];
    let cluster = over(&[&fakes[0], &fakes[1], &fakes[2]]);
    // From now on, no other task sends requests.
    cluster.watcher.close();
    let logins = || fakes.iter().map(Fake::logins).sum::<usize>();
    for (hopeless, number) in [(false, 3), (true, 1), (true, 1)] {
        let before = logins();
        let refused = cluster
            .shared
            .ask(hopeless)
            .await
            .err()
            .expect("all refuse");
        assert_eq!(refused.kind(), StoreErrorKind::Unauthenticated);
        assert_eq!(logins() - before, number, "{hopeless}");
    }
}
