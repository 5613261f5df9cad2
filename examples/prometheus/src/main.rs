//! A service under load whose locks Prometheus can watch.
//!
//! ```text
//! cargo run --package prometheus
//! cargo run --package prometheus -- --once
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --package prometheus
//! ```

use std::{error::Error, future::Future, net::SocketAddr, process::ExitCode, time::Duration};

use axum::{Router, extract::State, routing::get};
use clap::Parser;
use dlock::{ConnectError, LockError, LockManager, distributed_lock};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};

/// From a lock in this process to the longest wait that anybody asks for.
const WAITS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// From a server next door to the response timeout.
const REQUESTS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// How long `--once` lets the load run.
const ONCE: Duration = Duration::from_secs(2);

/// Takes locks all the time, and shows what becomes of them at `/metrics`.
///
/// Locks in this process only, or in the server that `DLOCK_URL` names.
#[derive(Debug, Parser)]
#[command(name = "prometheus")]
struct Cli {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Print the metrics after two seconds of load, and end.
    #[arg(long)]
    once: bool,
}

/// Four orders for many tasks: they wait for each other, within their patience.
#[distributed_lock(key = "order:<id>", ttl = "10s", wait = "200ms")]
async fn settle(id: u64) -> Result<(), LockError> {
    sleep(Duration::from_millis(20)).await;
    Ok(())
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s")]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    sleep(Duration::from_millis(5)).await;
    Ok(())
}

/// Every replica tries, and one does it: the others are no incident.
#[distributed_lock(key = "report", ttl = "10s", wait = never)]
async fn report() -> Result<(), LockError> {
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

/// Takes longer than it may now and then, and is cut off.
#[distributed_lock(key = "import:<part>", ttl = "10s", max_hold = "150ms")]
async fn import(part: u64, work: Duration) -> Result<(), LockError> {
    sleep(work).await;
    Ok(())
}

/// Calls one of the functions again and again. What goes wrong is counted already.
async fn again_and_again<F>(call: impl Fn(u64) -> F)
where
    F: Future<Output = Result<(), LockError>>,
{
    for round in 0.. {
        let outcome = call(round).await;
        if matches!(outcome, Err(LockError::Closed { .. })) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn put_under_load() -> JoinSet<()> {
    let mut load = JoinSet::new();
    for task in 0..16 {
        load.spawn(again_and_again(move |round| settle((task + round) % 4)));
    }
    for task in 0..4 {
        load.spawn(again_and_again(move |round| {
            transfer((task + round) % 5, (task + 2) % 5)
        }));
    }
    for _ in 0..3 {
        load.spawn(again_and_again(|_| report()));
    }
    load.spawn(again_and_again(|round| {
        import(round % 2, Duration::from_millis(40 * (round % 5)))
    }));
    // A client with less patience than the lock has.
    load.spawn(again_and_again(async |_| {
        let hasty = timeout(Duration::from_millis(15), settle(0)).await;
        hasty.unwrap_or(Ok(()))
    }));
    load
}

/// Has to be there before anything is counted, so it comes first.
fn record() -> Result<PrometheusHandle, BuildError> {
    let named = |name: &str| Matcher::Full(name.to_owned());
    PrometheusBuilder::new()
        .set_buckets_for_metric(named("dlock_wait_seconds"), WAITS)?
        .set_buckets_for_metric(named("dlock_held_seconds"), WAITS)?
        .set_buckets_for_metric(named("dlock_request_seconds"), REQUESTS)?
        .install_recorder()
}

async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> std::io::Result<()> {
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        loop {
            // What was recorded since goes into the buckets, and takes no memory any more.
            sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    let page = get(async |State(metrics): State<PrometheusHandle>| metrics.render());
    let app = Router::new().route("/metrics", page).with_state(metrics);
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, app)
        .with_graceful_shutdown(interrupted)
        .await
}

#[tokio::main]
async fn main() -> ExitCode {
    match prometheus(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prometheus: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn prometheus(cli: Cli) -> Result<(), Box<dyn Error>> {
    let metrics = record()?;
    let manager = match LockManager::connect_env().await {
        Err(ConnectError::NoUrl) => LockManager::memory(),
        connected => connected?,
    };
    dlock::install(manager)?;
    if cli.once {
        let load = put_under_load();
        sleep(ONCE).await;
        dlock::shutdown(Duration::from_secs(5)).await;
        load.join_all().await;
        print!("{}", metrics.render());
        return Ok(());
    }
    let listener = TcpListener::bind(cli.listen).await?;
    println!("http://{}/metrics", listener.local_addr()?);
    let _load = put_under_load();
    serve(listener, metrics).await?;
    dlock::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
