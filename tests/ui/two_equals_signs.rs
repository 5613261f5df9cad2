use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", ttl == "30s")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
