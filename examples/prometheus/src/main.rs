//! A service under load that exports the metrics of its locks to Prometheus.
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

/// Buckets from a lock in this process to the longest `wait`.
const WAITS: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Buckets from a server nearby to the response timeout.
const REQUESTS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// The time under load with `--once`.
const ONCE: Duration = Duration::from_secs(2);

/// Acquires locks continuously, and serves their metrics at `/metrics`.
///
/// The locks are in this process, or in the server of `DLOCK_URL`.
#[derive(Debug, Parser)]
#[command(name = "prometheus")]
struct Cli {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Print the metrics after two seconds of load, and exit.
    #[arg(long)]
    once: bool,
}

/// Many tasks compete for four orders, each for at most `wait`.
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

/// Every replica tries and one succeeds. A busy lock is normal here.
#[distributed_lock(key = "report", ttl = "10s", wait = never)]
async fn report() -> Result<(), LockError> {
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

/// Sometimes takes longer than `max_hold`, and is then cancelled.
#[distributed_lock(key = "import:<part>", ttl = "10s", max_hold = "150ms")]
async fn import(part: u64, work: Duration) -> Result<(), LockError> {
    sleep(work).await;
    Ok(())
}

/// Calls a function in a loop. The metrics count its errors.
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
    // A client whose timeout is shorter than `wait`.
    load.spawn(again_and_again(async |_| {
        let hasty = timeout(Duration::from_millis(15), settle(0)).await;
        hasty.unwrap_or(Ok(()))
    }));
    load
}

/// Installs the recorder. It must exist before the first metric.
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
            // Moves recorded values into the buckets, which frees their memory.
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
