use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", ttl = 30000)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
