use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", manager = "redis://localhost")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
