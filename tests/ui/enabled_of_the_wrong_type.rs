use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", enabled = "true")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
