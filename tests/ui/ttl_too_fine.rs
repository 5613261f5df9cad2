use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", ttl = "1500us")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
