use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", database = "redis")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
