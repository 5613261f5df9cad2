use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", min_hold = "10m", max_hold = "5m")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
