use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", min_hold = "0s")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
