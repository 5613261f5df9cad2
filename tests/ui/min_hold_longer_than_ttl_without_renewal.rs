use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", renew = false, ttl = "30s", min_hold = "10m")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
