//! The first program of the README, on the server that `DLOCK_URL` names.

use dlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "30s", lease = lease)]
async fn settle(id: u64) -> Result<(), LockError> {
    println!(
        "order {id} is locked, fencing token {}",
        lease.fencing_token()
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    dlock::install(LockManager::connect(&std::env::var("DLOCK_URL")?).await?)?;
    Ok(settle(42).await?)
}
