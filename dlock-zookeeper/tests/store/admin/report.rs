//! What is told of the servers.

use std::{net::TcpListener, time::Duration};

use dlock_admin::Inspect;
use dlock_runtime::{ConnectError, StoreErrorKind, store::StoreOptions};
use dlock_testkit::ZooKeepers;
use dlock_zookeeper::admin::ZooKeeperInspector;
use zookeeper_client::{Acls, CreateMode};

use super::{Place, SESSION};
use crate::{
    scripted::{FENCE, GET_DATA, LIST, MULTI, NO_AUTH, Reply, Scripted, UNIMPLEMENTED},
    world::LIMIT,
};

/// Requests that only later servers know: for the users of a connection, and for the nodes of a session.
const WHO_AM_I: i32 = 107;
const GET_EPHEMERALS: i32 = 103;

fn opened(url: &str) -> ZooKeeperInspector {
    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    ZooKeeperInspector::open(url, &options).unwrap()
}

#[tokio::test]
async fn each_server_tells_of_itself_and_nothing_is_written() {
    let place = Place::new("report").await;
    let manager = place.manager("one").await;
    let guard = manager.lock("job").acquire().await.unwrap();
    let before = (place.children("").await, place.children("/fence").await);
    let hosts: Vec<_> = (0..3)
        .map(|it| format!("127.0.0.1:{}", place.servers.port(it)))
        .collect();
    let url = ZooKeepers::url_of(&format!("me:hush@{}/report", hosts.join(",")), SESSION);
    let reports = opened(&url).servers().await;
    let (mut ids, mut modes) = (Vec::new(), Vec::new());
    for (report, host) in reports.iter().zip(&hosts) {
        assert_eq!(report.failure, None);
        assert_eq!(report.server, format!("zookeeper://{host}"));
        let told = |name: &str| report.info.get(name).map(String::as_str);
        for (name, value) in [
            ("user", "me"),
            ("has_leader", "true"),
            ("members", "1,2,3"),
            ("observers", ""),
            ("session_wanted_ms", "120000"),
            ("session_granted_ms", "120000"),
            // Two ticks of 500 ms.
            ("session_shortest_ms", "1000"),
            ("tick_wanted_ms", "500"),
            ("reads_locks", "true"),
            ("is_open", "true"),
            ("fence_base", "fine"),
        ] {
            assert_eq!(told(name), Some(value), "{name}: {report:#?}");
        }
        assert_eq!(told("version_at_least"), None);
        assert_eq!(report.product.as_deref(), Some("ZooKeeper"));
        assert!(told("zookeeper_version").unwrap().starts_with("3."));
        assert_eq!(report.version.as_deref(), told("zookeeper_version"));
        ids.extend(told("member_id"));
        modes.extend(told("mode"));
        assert_eq!((report.denied.len(), report.round_trips.len()), (0, 20));
    }
    ids.sort_unstable();
    modes.sort_unstable();
    assert_eq!(ids, ["1", "2", "3"]);
    assert_eq!(modes, ["follower", "follower", "leader"]);
    let after = (place.children("").await, place.children("/fence").await);
    assert_eq!(before, after);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let place = Place::new("missing").await;
    // Nothing is there yet.
    let told = opened(&place.url_of("")).servers().await.remove(0);
    assert_eq!(told.info.get("fence_base").unwrap(), "missing");
    assert_eq!((told.denied.len(), told.info.get("is_open")), (0, None));

    let shop = place.manager_of("shop", "shop:hush@").await;
    let guard = shop.lock("job").acquire().await.unwrap();
    let told = opened(&place.url_of("guest:hush@"))
        .servers()
        .await
        .remove(0);
    let rules: Vec<_> = told
        .denied
        .iter()
        .map(|it| (it.is_required, it.rule.contains("`/missing`")))
        .collect();
    assert_eq!(rules, [(true, true), (false, true)], "{told:#?}");
    assert_eq!(told.info.get("reads_locks").unwrap(), "false");
    assert_eq!(told.info.get("fence_base"), None);
    let told = opened(&place.url_of("shop:hush@"))
        .servers()
        .await
        .remove(0);
    assert_eq!(told.denied, []);
    assert_eq!(told.info.get("is_open").unwrap(), "false");
    guard.release().await.unwrap();

    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let silent = format!("{closed}/missing");
    let mut options = StoreOptions::default();
    options.connect_timeout = Duration::from_secs(5);
    let url = ZooKeepers::url_of(&silent, SESSION);
    let told = ZooKeeperInspector::open(&url, &options).unwrap();
    let told = told.servers().await.remove(0);
    let failure = told.failure.unwrap().to_string();
    assert!(failure.contains("no server answers"), "{failure}");
    let refused = ZooKeeperInspector::connect(&url, &options).await;
    let ConnectError::Unavailable { url, reason } = refused.unwrap_err() else {
        panic!("it is a matter of the servers");
    };
    assert_eq!(url, format!("zookeeper://{silent}"));
    assert_eq!(reason.kind(), StoreErrorKind::Unreachable);
    assert!(reason.has_no_effect(), "{reason}");
}

#[tokio::test]
async fn who_may_not_make_the_directory_of_the_locks_is_told_where() {
    let place = Place::new("closed").await;
    let all_read = CreateMode::Persistent.with_acls(Acls::anyone_read());
    let path = place.path("");
    place.client.create(&path, b"", &all_read).await.unwrap();
    let url = place.url_of("").replace("/closed?", "/closed/my/locks?");
    let told = opened(&url).servers().await.remove(0);
    let [denied] = &told.denied[..] else {
        panic!("{told:#?}");
    };
    assert!(denied.is_required);
    for part in ["CREATE on `/closed`", "create `/closed/my/locks` for it"] {
        assert!(denied.rule.contains(part), "{denied:?}");
    }
    assert_eq!(told.info.get("reads_locks").unwrap(), "true");
    assert_eq!(told.info.get("is_open"), None);
}

#[tokio::test]
async fn the_base_of_fences_is_told_as_it_is_seen() {
    let cases: [(Option<&'static [&'static str]>, &str); 5] = [
        (Some(&["7"]), "fine"),
        (Some(&["7", "100"]), "fine"),
        (Some(&["7", "mine"]), "foreign"),
        (Some(&[]), "foreign"),
        (None, "hidden"),
    ];
    for (names, state) in cases {
        let server = Scripted::start(move |request| match request.code {
            LIST if request.path == FENCE => Some(match names {
                Some(names) => Reply::names(names),
                None => Reply::Refused(NO_AUTH),
            }),
            WHO_AM_I => Some(Reply::names(&[])),
            MULTI => Some(Reply::carried_out(request, 1, "")),
            _ => None,
        })
        .await;
        let told = opened(&server.url()).servers().await.remove(0);
        let seen = told.info.get("fence_base").map(String::as_str);
        assert_eq!(seen, Some(state), "{told:#?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_version_is_known_by_what_it_answers() {
    let cases: [(&'static [i32], &str, &str); 3] = [
        (&[], "3.7", "0"),
        (&[WHO_AM_I], "3.6", "0"),
        (&[WHO_AM_I, GET_EPHEMERALS], "3.5", "1"),
    ];
    for (unknown, least, member) in cases {
        // The number of a server is in those of its sessions, and that is 0 here.
        let members = format!(
            "server.{member}=zk-1:2888:3888:participant;2181\n\
             server.7=zk-2:2888:3888:observer;2181"
        );
        let server = Scripted::start(move |request| match request.code {
            code if unknown.contains(&code) => Some(Reply::Refused(UNIMPLEMENTED)),
            WHO_AM_I | GET_EPHEMERALS => Some(Reply::names(&[])),
            GET_DATA if request.path == "/zookeeper/config" => Some(Reply::data(&members, 1)),
            MULTI => Some(Reply::carried_out(request, 1, "")),
            _ => None,
        })
        .await;
        let report = opened(&server.url()).servers().await.remove(0);
        assert_eq!(report.failure, None, "{report:#?}");
        let own = (member == "0").then_some("0");
        for (name, value) in [
            ("zookeeper_version", None),
            ("mode", None),
            ("version_at_least", Some(least)),
            ("members", Some(member)),
            ("observers", Some("7")),
            ("member_id", own),
            ("user", Some("")),
            ("reads_locks", Some("true")),
            ("is_open", None),
            ("fence_base", Some("missing")),
        ] {
            let told = report.info.get(name).map(String::as_str);
            assert_eq!(told, value, "{name}: {report:#?}");
        }
        assert_eq!((report.denied.len(), report.round_trips.len()), (0, 20));
    }
}
