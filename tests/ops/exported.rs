//! The metrics that a process exports to Prometheus, in the form of `examples/prometheus`: every series that the files ask for
//! is there, at once or, as the documentation says, from its first event on.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    time::Duration,
};

use dlock::{LockManager, Wait};
use dlock_testkit::{RedisServer, eventually};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::oneshot;

use crate::{
    assert_none,
    code::{self, Kind, Metric},
    common::{LIMIT, begin, connect, soon},
    files::{queries_of_panels, queries_of_rules, read},
    promql::Query,
};

/// Long enough for a machine that stands still for a second.
const TTL: Duration = Duration::from_secs(6);

/// The lease of a body that is not polled for as long. It begins before that is over, where the machine stands still for a second.
const SHORT: Duration = Duration::from_secs(3);

/// The labels of each series of dlock, by its name.
type Series = BTreeMap<String, BTreeSet<String>>;

fn series(exported: &str) -> Series {
    let mut found = Series::new();
    for line in exported.lines().filter(|it| it.starts_with("dlock_")) {
        let (name, rest) = line.split_once('{').expect("each has labels");
        // No label here has a quote in its value.
        let labels = rest
            .split("=\"")
            .map(|it| it.rsplit([',', '"', '{']).next());
        let mut labels: Vec<_> = labels.map(|it| it.unwrap().to_owned()).collect();
        labels.pop();
        found.entry(name.to_owned()).or_default().extend(labels);
    }
    found
}

/// The series that a metric of the code is exported as, with their labels.
fn expected(name: &str, metric: &Metric) -> Vec<(String, BTreeSet<String>)> {
    let labels = metric.labels.clone();
    if metric.kind != Kind::Histogram {
        return vec![(name.to_owned(), labels)];
    }
    let mut bounded = labels.clone();
    bounded.insert("le".to_owned());
    vec![
        (format!("{name}_bucket"), bounded),
        (format!("{name}_sum"), labels.clone()),
        (format!("{name}_count"), labels),
    ]
}

/// The metrics that the documentation says appear with their first event.
pub(crate) fn of_events() -> BTreeSet<String> {
    let page = read("docs/book/src/reference/metrics.md");
    let (_, list) = page.split_once("appear with their first event:").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let names = list.split('`').skip(1).step_by(2).map(ToOwned::to_owned);
    names.collect()
}

fn recorder() -> PrometheusHandle {
    let named = |name: &str| Matcher::Full(name.to_owned());
    let mut builder = PrometheusBuilder::new();
    for (name, metric) in code::metrics() {
        if metric.kind == Kind::Histogram {
            let buckets = [0.01, 0.1, 1.0, 10.0];
            builder = builder
                .set_buckets_for_metric(named(&name), &buckets)
                .unwrap();
        }
    }
    builder.install_recorder().unwrap()
}

#[tokio::test]
async fn every_series_that_the_files_ask_for_is_exported() {
    let exported = recorder();
    let server = RedisServer::start().await;
    // No request may fail by a machine that stands still.
    let builder = LockManager::builder().response_timeout(LIMIT / 2);
    let manager = builder.connect(&server.url()).await.unwrap();
    undisturbed(&manager, &exported).await;
    let (early, events, metrics) = (series(&exported.render()), of_events(), code::metrics());
    let mut faults = Vec::new();
    for (name, metric) in &metrics {
        for (name_of_series, labels) in expected(name, metric) {
            let is_there = early.get(&name_of_series);
            if events.contains(name) == is_there.is_some() {
                faults.push(format!(
                    "{name_of_series}: of an event: {}",
                    events.contains(name)
                ));
            }
            if is_there.is_some_and(|it| *it != labels) {
                faults.push(format!(
                    "{name_of_series}: {is_there:?} instead of {labels:?}"
                ));
            }
        }
    }
    assert_none(&faults);

    contended(&server, &manager, &exported).await;
    broken(&manager, server, &exported).await;
    without_messages(&exported).await;
    let late = series(&exported.render());
    for (name, metric) in &metrics {
        for (series, labels) in expected(name, metric) {
            assert_eq!(late.get(&series), Some(&labels), "{series}");
        }
    }
    let queries = [queries_of_panels(), queries_of_rules()].concat();
    let selectors = queries
        .iter()
        .flat_map(|it| Query::read(&it.query).selectors);
    // Those with a colon are made by rules.
    let raw: BTreeSet<_> = selectors
        .map(|it| it.metric)
        .filter(|it| !it.contains(':'))
        .collect();
    assert!(raw.len() > 15, "they were found: {raw:?}");
    let missing = raw.into_iter().filter(|it| !late.contains_key(it));
    assert_none(&missing.collect::<Vec<_>>());
}

async fn shows(exported: &PrometheusHandle, what: &str) {
    eventually(LIMIT, what, async || exported.render().contains(what)).await;
}

/// A lock that is acquired, renewed and released.
async fn undisturbed(manager: &LockManager, exported: &PrometheusHandle) {
    let guard = soon(manager.lock("a").ttl(TTL).acquire()).await.unwrap();
    shows(exported, "outcome=\"renewed\"").await;
    soon(guard.release()).await.unwrap();
}

/// Calls that wait for another one, and callers that are dropped.
async fn contended(server: &RedisServer, manager: &LockManager, exported: &PrometheusHandle) {
    let lock = || manager.lock("a").wait(Wait::Forever);
    let guard = soon(lock().acquire()).await.unwrap();
    let mut waiting = Box::pin(lock().acquire());
    begin(&mut waiting).await;
    drop(waiting);
    shows(exported, "dlock_cancelled_total{").await;
    soon(guard.release()).await.unwrap();
    let other = connect(&server.url()).await;
    // A waiter whose message is late finds its grant by a request, which is not counted here.
    eventually(LIMIT, "a lease is granted by a message", async || {
        grant(server, manager, &other).await;
        exported.render().contains("dlock_handed_over_total{")
    })
    .await;

    let (begun, has_begun) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let body = async move {
        begun.send(()).unwrap();
        ended.await.unwrap();
    };
    let caller = tokio::spawn(manager.lock("b").run_detached(|_| Box::pin(body)));
    soon(has_begun).await.unwrap();
    caller.abort();
    shows(exported, "dlock_detached_total{").await;
    end.send(()).unwrap();

    let (begun, mut has_begun) = oneshot::channel();
    let lock = manager.lock("c").ttl(SHORT);
    let mut call = Box::pin(lock.run(async |_| {
        begun.send(()).unwrap();
        pending::<()>().await;
    }));
    tokio::select! {
        biased;
        begun = &mut has_begun => begun.unwrap(),
        _ = &mut call => panic!("it never ends"),
    }
    // It is not polled from here on.
    shows(exported, "dlock_stalled_total{").await;
}

/// A server that is killed while a lock is held.
async fn broken(manager: &LockManager, server: RedisServer, exported: &PrometheusHandle) {
    let guard = soon(manager.lock("d").ttl(TTL).acquire()).await.unwrap();
    server.kill();
    drop(guard);
    for name in ["connections_lost", "requests_failed", "unreleased"] {
        shows(exported, &format!("dlock_{name}_total{{")).await;
    }
}

/// A server on which no client can publish.
async fn without_messages(exported: &PrometheusHandle) {
    let server = RedisServer::start_with(&["--rename-command", "PUBLISH", ""]).await;
    let url = server.url();
    let (first, second) = (connect(&url).await, connect(&url).await);
    grant(&server, &first, &second).await;
    shows(exported, "dlock_wake_ups_resent_total{").await;
}

/// A release by one process, by which the store grants the lock to another one.
async fn grant(server: &RedisServer, first: &LockManager, second: &LockManager) {
    let guard = soon(first.lock("e").acquire()).await.unwrap();
    let waiting = tokio::spawn(second.lock("e").wait(Wait::Forever).acquire());
    eventually(LIMIT, "it is in the queue", async || {
        server.keys("dlock:*:q").await.len() == 1
    })
    .await;
    soon(guard.release()).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
}
