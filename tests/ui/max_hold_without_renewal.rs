use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", max_hold = "5m", renew = false)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
