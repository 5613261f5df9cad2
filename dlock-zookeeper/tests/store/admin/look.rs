//! Locks, holders and waiters as they are listed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use dlock::{LockMode, Wait};
use dlock_admin::{Inspect, LockInfo};
use dlock_testkit::{Proxy, ZooKeepers, eventually};

use super::{Place, SESSION, TTL, applications, claim, inspector, key, seen, staying};
use crate::{
    scripted::{GET_DATA, LIST, MULTI_READ, Reply, Scripted, UNIMPLEMENTED},
    world::LIMIT,
};

#[tokio::test]
async fn holders_and_waiters_are_listed_in_the_order_of_the_queue() {
    let place = Place::new("look").await;
    let inspector = place.inspector().await;
    assert_eq!(inspector.locks(None).await.unwrap(), []);
    assert_eq!(inspector.lock(&key("a/b")).await.unwrap(), None);
    let [billing, mail, cron] = [
        place.manager("billing").await,
        place.manager("mail").await,
        place.manager("cron").await,
    ];
    let began = SystemTime::now();
    let guard = billing.lock("a/b").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (places, lock) in [
        (2, mail.lock("a/b").permits(3)),
        (3, cron.lock("a/b").shared()),
    ] {
        waiting.push(tokio::spawn(lock.wait(Wait::Forever).acquire()));
        let waits = async || place.children("/lock:a%2Fb").await.len() == places;
        eventually(LIMIT, "it waits", waits).await;
    }
    let lock = seen(&inspector, "a/b").await;
    let elapsed = began.elapsed().unwrap();
    assert_eq!(lock.mode, Some(LockMode::Exclusive));
    let holder = lock.holder.as_ref().unwrap();
    assert_eq!(applications([&holder.label].into_iter()), ["billing"]);
    let token = guard.fencing_token().to_string();
    let fence = dlock::FencingToken::from_fence(holder.fence).unwrap();
    assert_eq!((fence.to_string(), lock.last_fence), (token, holder.fence));
    assert!(holder.since.unwrap() >= began - Duration::from_millis(1));
    assert!(holder.ttl.is_some_and(|ttl| !ttl.is_zero() && ttl <= TTL));
    let modes: Vec<_> = lock.waiters.iter().map(|it| it.mode).collect();
    assert_eq!(modes, [LockMode::Permits(3), LockMode::Shared]);
    let labels = lock.waiters.iter().map(|it| &it.label);
    assert_eq!(applications(labels), ["mail", "cron"]);
    let [first, second] = [0, 1].map(|it| lock.waiters[it].waiting);
    assert!(elapsed >= first && first >= second, "{first:?} {second:?}");
    let counts = (lock.holder_count, lock.waiter_count, lock.servers);
    assert_eq!(counts, (1, 2, 1));
    let listed = inspector.locks(None).await.unwrap();
    assert_eq!((listed.len(), &*listed[0].key), (1, "a/b"));
    let overview = inspector.overview().await.unwrap();
    assert_eq!((overview.locks.len(), overview.process_count), (1, None));
    drop(waiting);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn those_who_share_or_have_permits_are_listed_with_one_fence() {
    let place = Place::new("modes").await;
    let inspector = place.inspector().await;
    let (one, other) = (place.manager("one").await, place.manager("other").await);
    let _shared = [
        one.lock("catalog").shared().acquire().await.unwrap(),
        other.lock("catalog").shared().acquire().await.unwrap(),
    ];
    let _permits = [
        one.lock("encoder").permits(2).acquire().await.unwrap(),
        other.lock("encoder").permits(2).acquire().await.unwrap(),
    ];
    place.put("encoder", 90, "permits=2").await;
    let keys = ["encoder", "catalog", "nothing", "catalog"].map(key);
    let locks = inspector.locks_of(&keys).await.unwrap();
    let names: Vec<_> = locks.iter().map(|it| &*it.key).collect();
    assert_eq!(names, ["catalog", "encoder"]);
    for lock in &locks {
        assert_eq!((lock.mode, lock.holder_count), (Some(LockMode::Shared), 2));
        let mut labels = applications(lock.holders().map(|it| &it.label));
        labels.sort_unstable();
        assert_eq!(labels, ["one", "other"]);
        let mut fences = lock.holders().map(|it| it.fence);
        assert_eq!(fences.next(), fences.next(), "they share an epoch");
    }
    assert_eq!(locks[1].waiters[0].mode, LockMode::Permits(2));
    assert_eq!(locks[1].waiters[0].label.as_deref(), Some("next@host/2"));
}

#[tokio::test]
async fn nodes_of_other_programs_are_left_alone() {
    let place = Place::new("foreign").await;
    let nodes = [
        "",
        "/other",
        "/other/child",
        "/lock:",
        "/lock:%zz",
        "/lock:a%2fb",
        "/lock:empty",
        "/lock:held",
        "/lock:held/mine",
        "/lock:theirs",
    ];
    for node in nodes {
        place.create(node, "mine").await;
    }
    let held = claim(1, "exclusive");
    place
        .create(
            &format!("/lock:held/{held}"),
            "1 1000 0 60000 1001 1 one@h/1 - -",
        )
        .await;
    // The name of a claim, but the text of another program.
    let theirs = claim(2, "shared");
    place
        .create(&format!("/lock:theirs/{theirs}"), "mine")
        .await;
    let inspector = place.inspector().await;
    let locks = inspector.locks(None).await.unwrap();
    let keys: Vec<_> = locks.iter().map(|it| &*it.key).collect();
    assert_eq!(keys, ["held", "theirs"]);
    assert_eq!(locks[0].holder.as_ref().unwrap().fence, 1001);
    let foreign = locks[1].holder.as_ref().unwrap();
    assert_eq!(
        (foreign.owner, foreign.ttl, foreign.since),
        (None, None, None)
    );
    let unlocked = inspector.unlock(&locks[0], None).await.unwrap();
    assert_eq!(unlocked, dlock_admin::Unlocked::Freed);
    for (node, children) in [
        ("/lock:held", &["mine"][..]),
        ("/lock:theirs", &[&*theirs]),
        ("/other", &["child"]),
    ] {
        assert_eq!(place.children(node).await, children, "{node}");
    }
}

/// Creates many locks that are held, ten in a transaction.
async fn fill(place: &Place, keys: impl Iterator<Item = String>) {
    let options = staying();
    let keys: Vec<_> = keys.collect();
    for some in keys.chunks(50) {
        let mut writer = place.client.new_multi_writer();
        for key in some {
            let directory = place.path(&format!("/lock:{key}"));
            writer.add_create(&directory, b"", &options).unwrap();
            let child = format!("{directory}/{}", claim(1, "exclusive"));
            let text = b"1 1000 0 60000 1001 1 one@h/1 - -";
            writer.add_create(&child, text, &options).unwrap();
        }
        writer.commit().await.unwrap();
    }
}

#[tokio::test]
async fn thousands_of_locks_are_listed_in_order_and_patterns_mean_what_they_mean_in_redis() {
    let place = Place::new("pages").await;
    place.create("", "").await;
    let odd = ["a.b", "axb", "a%25b", "a_b", r"a\b", "a*b", "a%2Fb", "a"];
    let keys = (0..3000).rev().map(|it| format!("k:{it:04}"));
    fill(&place, keys.chain(odd.map(str::to_owned))).await;
    // More claims on one key than a step reads.
    place.create("/lock:crowd", "").await;
    for chunk in (0..601).collect::<Vec<u64>>().chunks(100) {
        let mut writer = place.client.new_multi_writer();
        for number in chunk {
            let child = place.path(&format!("/lock:crowd/{}", claim(*number, "exclusive")));
            let text = b"1 1000 0 60000 - - - - -";
            writer.add_create(&child, text, &staying()).unwrap();
        }
        writer.commit().await.unwrap();
    }
    let inspector = place.inspector().await;
    inspector.lift_limit();
    let locks = inspector.locks(None).await.unwrap();
    assert_eq!(locks.len(), 3009);
    assert!(locks.is_sorted_by_key(|it| &it.key));
    assert!(locks.iter().all(|it| it.holder.is_some()));
    let (mut parts, mut part_count) = (Vec::new(), 0);
    let mut part = |locks: Vec<_>| {
        parts.extend(locks);
        part_count += 1;
    };
    let rest = inspector.overview_in_parts(&mut part).await.unwrap();
    let keys = |locks: &[LockInfo]| locks.iter().map(|it| it.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&parts), keys(&locks));
    assert!(part_count > 10 && rest.locks.is_empty(), "{part_count}");
    let crowd = locks.iter().find(|it| it.key == "crowd").unwrap();
    assert_eq!((crowd.holder_count, crowd.waiter_count), (1, 600));
    let owners: Vec<_> = crowd
        .waiters
        .iter()
        .map(|it| it.owner.to_string())
        .collect();
    let expected: Vec<_> = (1..601).map(|it| format!("{it:032x}.1")).collect();
    assert_eq!(owners, expected);
    for (pattern, count) in [
        ("k:*", 3000),
        ("k:06[0-4]9", 5),
        ("*42", 30),
        ("k:0042", 1),
        ("k:004", 0),
        ("a?b", 7),
        ("a%b", 1),
        ("a/*", 1),
        (r"a\*b", 1),
        ("crow*", 1),
    ] {
        let listed = inspector.locks(Some(pattern)).await.unwrap();
        assert_eq!(listed.len(), count, "{pattern}");
    }
}

#[tokio::test]
async fn a_listing_leaves_the_servers_nearly_all_of_their_time() {
    let place = Place::new("pace").await;
    place.create("", "").await;
    fill(&place, (0..600).map(|it| format!("k:{it:04}"))).await;
    let began = Instant::now();
    let inspector = place.inspector().await;
    let listing = inspector.locks(None);
    tokio::pin!(listing);
    let mut seen = Vec::new();
    let locks = loop {
        tokio::select! {
            locks = &mut listing => break locks.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(20)) => seen.extend(inspector.progress()),
        }
    };
    assert_eq!(locks.len(), 600);
    // Three times a request for 200 queues, which is 2.5 ms, and then 200 requests of 0.1 ms each. A step begins 25 times as long
    // after the one before. The inspector has saved no time before it was created.
    let least = Duration::from_micros(25 * (3 * 2_500 + 2 * 20_000));
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    assert!(seen.is_sorted() && seen.iter().any(|it| *it > 0.0 && *it < 1.0));
    assert_eq!(inspector.progress(), None);
}

#[tokio::test]
async fn an_inspector_survives_the_end_of_its_connection() {
    let place = Place::new("cut").await;
    let proxy = Proxy::start(place.servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}/cut", proxy.port()), SESSION);
    let inspector = inspector(&url).await;
    let manager = place.manager("one").await;
    let guard = manager.lock("job").acquire().await.unwrap();
    assert_eq!(inspector.locks(None).await.unwrap().len(), 1);
    proxy.cut();
    eventually(
        LIMIT,
        "it looks again",
        async || matches!(inspector.locks(None).await, Ok(locks) if locks.len() == 1),
    )
    .await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn queues_are_read_many_at_once_unless_the_servers_are_too_old_for_it() {
    for is_old in [false, true] {
        let alone = Arc::new(AtomicUsize::new(0));
        let (count, child) = (alone.clone(), claim(1, "exclusive"));
        let server = Scripted::start(move |request| {
            let directories = ["lock:gone", "lock:held", "lock:left"];
            let children = [&*child];
            let names = |path: &str| match path.rsplit('/').next() {
                Some("dlock") => Some(&directories[..]),
                Some("lock:held") => Some(&children[..]),
                Some("lock:left") => Some(&[][..]),
                _ => None,
            };
            match request.code {
                MULTI_READ if is_old => Some(Reply::Refused(UNIMPLEMENTED)),
                MULTI_READ => Some(Reply::names_of_each(request, names)),
                LIST => {
                    count.fetch_add(1, Ordering::SeqCst);
                    names(&request.path).map(Reply::names)
                }
                GET_DATA => Some(Reply::data("1 7 5 30000 7 1 - - -", 7)),
                _ => None,
            }
        })
        .await;
        let locks = inspector(&server.url()).await.locks(None).await.unwrap();
        let keys: Vec<_> = locks.iter().map(|it| &*it.key).collect();
        assert_eq!(keys, ["held"]);
        let alone = alone.load(Ordering::SeqCst);
        assert_eq!(alone, if is_old { 4 } else { 1 });
    }
}
