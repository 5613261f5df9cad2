//! Settles order 42 under a lock, as the pages "The first lock" and "A crash" show it.

use std::{env, error::Error, time::Duration};

use dlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", wait = "1m", lease = lease)]
async fn settle(id: u64, work: Duration) -> Result<(), LockError> {
    println!("order {id}: settling with token {}", lease.fencing_token());
    tokio::time::sleep(work).await; // a slow payment service
    println!("order {id}: settled");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds = env::args().nth(1).map_or(Ok(20), |it| it.parse())?;
    dlock::install(LockManager::connect_env().await?)?;
    println!("order 42: waiting for the lock");
    settle(42, Duration::from_secs(seconds)).await?;
    Ok(())
}
