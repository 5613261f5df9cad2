use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", wait = 5)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
