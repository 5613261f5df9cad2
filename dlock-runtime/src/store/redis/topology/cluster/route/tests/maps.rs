//! Tests of requests whose route depends on the current map, and of the refreshes that they cause.

use std::{collections::HashSet, pin::pin, sync::atomic::AtomicBool};

use dlock_testkit::eventually;
use futures_util::FutureExt;

use super::*;
use crate::store::redis::{
    config::url::{Address, Location},
    net::{events::Events, home::Home},
    topology::cluster::Topology,
};

/// A port without a listener.
const NOWHERE: u16 = 1;

/// Longer than a busy machine pauses a thread.
const SOON: Duration = Duration::from_secs(10);

fn address(port: u16) -> Address {
    Address::Tcp("127.0.0.1".into(), port)
}

/// Starts a cluster whose map comes from the node at `port`.
async fn cluster_at(port: u16) -> Cluster {
    let config = Arc::new(config_at(port, LONG));
    let location = Location::parse(&config.url).unwrap();
    let events = Events::new(location.to_string());
    let home = Home::on(runtime::Handle::current(), LONG);
    let cluster = Cluster::start(location, &config, &Arc::default(), &home, events);
    let mut knowledge = cluster.shared.knowledge.subscribe();
    let told = knowledge.wait_for(|it| matches!(it, Knowledge::Known));
    let told = timeout_at(Instant::now() + LONG, told).await;
    drop(told.expect("the node answers").expect("the cluster lives"));
    cluster
}

/// The same with a single node that gives this answer to all requests.
async fn cluster_of_one(answer: &'static str) -> (Fake, Cluster) {
    let port = Arc::new(OnceLock::new());
    let answer = move |_: &str| Some(answer.to_owned());
    let node = node(&port, &Seen::default(), Arc::new(answer)).await;
    port.set(node.port).unwrap();
    let cluster = cluster_at(node.port).await;
    (node, cluster)
}

fn renewal(key: &str) -> Command {
    let keys = keys(&[key]);
    Command::renew(&config_at(NOWHERE, LONG), &renewals(&keys, owner())[0])
}

/// Makes the map record that the slot of `command` belongs to the node at `port`, which is not connected yet.
fn move_away(cluster: &Cluster, command: &Command, port: u16) {
    let shared = &cluster.shared;
    shared.write(|map| {
        let member = map.member(&address(port), |address| shared.start_node(address));
        map.moved(command.slot(), member);
    });
}

/// Returns the outcome of a request that waits for a node when that node leaves the map. The node at `port` has all
/// slots then.
async fn as_its_node_leaves<T>(
    cluster: &Cluster,
    port: u16,
    request: impl Future<Output = T>,
) -> T {
    let mut request = pin!(request);
    let early = request.as_mut().now_or_never();
    assert!(early.is_none(), "it waits for a connection");
    let shared = &cluster.shared;
    shared.write(|map| {
        let topology = Topology {
            masters: vec![(0..=16_383, address(port))],
            replicas: HashSet::new(),
        };
        let lessons = map.lessons();
        map.apply(topology, lessons, |address| shared.start_node(address));
    });
    request.await
}

#[tokio::test]
async fn a_request_goes_on_when_its_node_leaves_the_map() {
    let (node, cluster) = cluster_of_one(":1\r\n").await;
    let commands = ["a", "a"].map(renewal);
    move_away(&cluster, &commands[0], NOWHERE);
    let mut route = Route::to_owner(&commands[0], cluster.limit());
    let answer = as_its_node_leaves(&cluster, node.port, cluster.execute(&mut route)).await;
    assert_eq!(answer, Ok(Value::Int(1)));

    move_away(&cluster, &commands[0], NOWHERE);
    let together = cluster.execute_all(&commands, LONG);
    let answers = as_its_node_leaves(&cluster, node.port, together).await;
    assert_eq!(answers, [Ok(Value::Int(1)), Ok(Value::Int(1))]);
}

/// For example, it was sent to another node before, and that took its time.
#[tokio::test]
async fn a_request_whose_time_ends_before_it_has_a_connection_was_never_sent() {
    let (_node, cluster) = cluster_of_one(":1\r\n").await;
    let closed = Fake::silent_at_first(usize::MAX, |words| async move { courtesy(&words) }).await;
    let command = renewal("a");
    move_away(&cluster, &command, closed.port);
    let mut route = Route {
        end: Instant::now(),
        ..Route::to_owner(&command, LONG)
    };
    let error = cluster.execute(&mut route).await;
    let error = error.expect_err("its time is over");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(error.left_nothing(), "{error}");
}

/// In any order: each caller gets its own answer.
#[tokio::test]
async fn renewals_for_several_nodes_are_sent_to_each_and_answered_in_their_order() {
    const MIDDLE: u16 = 8191;
    let ports = Arc::new(OnceLock::<[u16; 2]>::new());
    let seen = [Seen::default(), Seen::default()];
    let node = async |which: usize, answer: &'static str| {
        let ports = ports.clone();
        let told = move || {
            let [low, high] = ports.get().expect("they are set before a request");
            slots(&[(0, MIDDLE, *low), (MIDDLE + 1, 16_383, *high)])
        };
        let answer = move |_: &str| Some(answer.to_owned());
        node_that_tells(told, &seen[which], Arc::new(answer)).await
    };
    let nodes = [node(0, ":1\r\n").await, node(1, ":0\r\n").await];
    ports.set(nodes.each_ref().map(|it| it.port)).unwrap();
    let cluster = cluster_at(nodes[0].port).await;

    // For the two nodes by turns.
    let mut commands: Vec<Command> = Vec::new();
    for command in (0..).map(|number| renewal(&format!("order:{number}"))) {
        let is_low_next = commands.len().is_multiple_of(2);
        if (command.slot() <= MIDDLE) == is_low_next {
            commands.push(command);
        }
        if commands.len() == 4 {
            break;
        }
    }
    let answers = cluster.execute_all(&commands, LONG).await;
    let [low, high] = [1, 0].map(|answer| Ok(Value::Int(answer)));
    assert_eq!(answers, [low.clone(), high.clone(), low, high]);
    for (which, seen) in seen.iter().enumerate() {
        let own = [which, which + 2].map(|at| {
            let key = commands[at].arguments().nth(3).unwrap_or_default();
            String::from_utf8_lossy(key).into_owned()
        });
        let seen = seen.lock().unwrap();
        let scripts = seen.iter().filter(|it| it.starts_with("dlock:"));
        assert_eq!(scripts.collect::<Vec<_>>(), own.iter().collect::<Vec<_>>());
    }
}

/// Returns the outcome of a request that casts doubt on the map.
async fn doubtful(cluster: &Cluster) -> Result<Value, StoreError> {
    // The task that would request the slots is closed, so that only this test sees the doubt.
    cluster.watcher.close();
    let answer = cluster
        .execute(&mut Route::to_owner(&renewal("a"), cluster.limit()))
        .await;
    let doubted = cluster.shared.is_doubted.notified();
    let doubted = timeout_at(Instant::now() + SOON, doubted).await;
    assert!(doubted.is_ok(), "no refresh follows: {answer:?}");
    answer
}

/// Nothing was sent, and another node may serve the slot by now.
#[tokio::test]
async fn a_slot_that_no_node_serves_is_told_of_and_asked_for() {
    let port = Arc::new(OnceLock::new());
    let own = port.clone();
    let told = move || slots(&[(0, 0, *own.get().expect("it is set before a request"))]);
    let node = node_that_tells(told, &Seen::default(), Arc::new(|_: &str| None)).await;
    port.set(node.port).unwrap();
    let answer = doubtful(&cluster_at(node.port).await).await;
    let error = answer.expect_err("no node serves it");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.message().starts_with("CLUSTERDOWN"), "{error}");
    assert!(error.left_nothing(), "{error}");
}

/// Another node may have replaced it.
#[tokio::test]
async fn the_slots_are_asked_for_when_a_node_turns_out_to_be_a_replica() {
    let answer = "-READONLY You can't write against a read only replica.\r\n";
    let (_node, cluster) = cluster_of_one(answer).await;
    let error = doubtful(&cluster).await.expect_err("it is a replica");
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}");
}

/// Other slots may have moved with it.
#[tokio::test]
async fn the_slots_are_asked_for_when_one_has_moved() {
    let port = Arc::new(OnceLock::new());
    let (place, is_first) = (port.clone(), AtomicBool::new(true));
    let answer = move |_: &str| {
        let port: &u16 = place.get().expect("it is known");
        let moved = format!("-MOVED 1 127.0.0.1:{port}\r\n");
        let is_first = is_first.swap(false, Ordering::Relaxed);
        Some(if is_first { moved } else { ":1\r\n".into() })
    };
    let node = node(&port, &Seen::default(), Arc::new(answer)).await;
    port.set(node.port).unwrap();
    let cluster = cluster_at(node.port).await;
    assert_eq!(doubtful(&cluster).await, Ok(Value::Int(1)));
}

/// A slot may move for longer than a request may take.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_put_off_has_longer_pauses_each_time_until_an_eighth_of_its_time_is_left()
{
    const LIMIT: Duration = Duration::from_secs(8);
    let command = renewal("a");
    let mut route = Route::to_owner(&command, LIMIT);
    let begun = Instant::now();
    let mut ends = vec![Duration::ZERO];
    let error = loop {
        match route.rest("(it moves)").await {
            Ok(()) => ends.push(begun.elapsed()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.left_nothing(), "{error}");
    let pauses = ends.windows(2);
    let pauses: Vec<_> = pauses.map(|it| it[1].saturating_sub(it[0])).collect();
    assert!(pauses.len() > 50, "{pauses:?}");
    let (growing, long) = pauses.split_at(5);
    assert!(growing.windows(2).all(|it| it[0] < it[1]), "{pauses:?}");
    // A timer fires at a whole millisecond.
    let longest = LONGEST_PAUSE * 5 / 4 + Duration::from_millis(1);
    let is_long = |pause: &Duration| (LONGEST_PAUSE..=longest).contains(pause);
    assert!(growing[0] < LONGEST_PAUSE / 10, "{pauses:?}");
    assert!(long.iter().all(is_long), "{pauses:?}");
    let left = LIMIT.saturating_sub(ends[pauses.len()]);
    let least = (LIMIT / 8).saturating_sub(Duration::from_millis(1));
    assert!((least..=least + 2 * longest).contains(&left), "{left:?}");
}

#[tokio::test]
async fn a_request_without_an_answer_also_tells_why_it_was_put_off_before() {
    let (port, is_first) = (Arc::new(OnceLock::new()), AtomicBool::new(true));
    let answer = move |_: &str| {
        let is_first = is_first.swap(false, Ordering::Relaxed);
        is_first.then(|| TRY_AGAIN.to_owned())
    };
    let node = node(&port, &Seen::default(), Arc::new(answer)).await;
    port.set(node.port).unwrap();
    let cluster = cluster_at(node.port).await;
    let command = renewal("a");
    let mut route = Route::to_owner(&command, Duration::from_secs(2));
    let answer = cluster.execute(&mut route).await;
    let error = answer.expect_err("the second request has no answer");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(!error.left_nothing(), "{error}");
    let before = format!("; before that, slot {} is being moved", command.slot());
    assert!(error.message().contains(&before), "{error}");
}

/// The keys of the other node cannot be locked yet.
#[tokio::test]
async fn a_cluster_of_which_some_nodes_serve_is_ready_when_the_time_for_the_others_is_over() {
    let ports = Arc::new(OnceLock::<[u16; 2]>::new());
    let known = ports.clone();
    let told = move || {
        let [open, closed] = known.get().expect("they are set before a request");
        slots(&[(0, 8191, *open), (8192, 16_383, *closed)])
    };
    let closed = Fake::silent_at_first(usize::MAX, |words| async move { courtesy(&words) }).await;
    let open = node_that_tells(told, &Seen::default(), Arc::new(|_: &str| None)).await;
    ports.set([open.port, closed.port]).unwrap();
    let cluster = cluster_at(open.port).await;
    eventually(LONG, "one node serves", async || {
        cluster.ready(Duration::from_millis(100)).await.is_ok()
    })
    .await;
    let early = cluster.ready(LONG).now_or_never();
    assert!(early.is_none(), "the other one may be ready in time");
}
