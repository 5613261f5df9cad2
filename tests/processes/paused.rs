//! A process that stands still for longer than its lease, as in a long garbage collection: it notices when
//! it goes on.
#![cfg(feature = "redis")]

use std::{env, process::Command, time::Duration};

use dlock::{LockError, LockManager};
use dlock_testkit::Worker;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::common::{Env, LIMIT, Redis, soon};

/// Set for the process that holds the lock: the URL of the server, and the address of the gate.
const HOLDER: &str = "DLOCK_TEST_HOLDER";

/// Long enough not to run out while the processes start on a loaded machine.
const TTL: Duration = Duration::from_secs(4);

/// The test is both processes: it runs itself a second time, with [`HOLDER`] set.
#[tokio::test]
async fn a_body_that_was_stopped_for_longer_than_its_lease_does_not_go_on() {
    match env::var(HOLDER) {
        Ok(addresses) => hold(&addresses).await,
        Err(_) => stop_a_holder().await,
    }
}

async fn stop_a_holder() {
    let env = Redis::start().await;
    let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = format!("{} {}", env.server.url(), gate.local_addr().unwrap());
    let test = "paused::a_body_that_was_stopped_for_longer_than_its_lease_does_not_go_on";
    let holder = Worker::spawn(
        Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(HOLDER, addresses),
    );
    let line = holder.line("holding ", LIMIT).await;
    let (_, fence) = line.split_once("holding ").unwrap();
    let fence: u64 = fence.parse().unwrap();
    holder.pause();

    // It can be had only when the lease has run out, which is not renewed.
    let manager = env.manager().await;
    let lock = manager.lock("order:42").wait(LIMIT);
    let guard = soon(lock.acquire()).await.expect("the lease runs out");
    assert!(
        guard.fencing_token().fence() > fence,
        "broken promise: the token did not grow"
    );

    // What the body waits for is there at the moment when its process goes on.
    let (mut gate, _) = soon(gate.accept()).await.unwrap();
    gate.write_u8(1).await.unwrap();
    holder.resume();
    let outcome = holder.line("outcome: ", LIMIT).await;
    assert!(
        outcome.ends_with("lost"),
        "broken promise: a lease is believed beyond its end: {outcome}"
    );
    assert!(holder.wait(LIMIT).await.success(), "{}", holder.stderr());
    assert!(
        !holder.stdout().contains("went on"),
        "broken promise: a body went on beyond its lease: {}",
        holder.stdout()
    );

    soon(guard.release())
        .await
        .expect("the holder did not touch what was not its own any more");
    env.assert_clean(1, &[&manager]).await;
}

async fn hold(addresses: &str) {
    let (url, gate) = addresses.split_once(' ').unwrap();
    let manager = LockManager::connect(url).await.unwrap();
    let mut gate = TcpStream::connect(gate).await.unwrap();
    let body = manager.lock("order:42").ttl(TTL).run(async |lease| {
        let open = async {
            gate.read_u8().await.unwrap();
            println!("went on");
        };
        let tell = async { println!("holding {}", lease.fencing_token().fence()) };
        // In this order: when it is told, the body waits at the gate.
        tokio::join!(biased; open, tell);
    });
    // No limit: its timer would be late as well.
    match body.await {
        Err(LockError::Lost { .. }) => println!("outcome: lost"),
        other => println!("outcome: {other:?}"),
    }
}
