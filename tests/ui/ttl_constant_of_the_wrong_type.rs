use dlock::{LockError, distributed_lock};

const TTL: u64 = 30;

#[distributed_lock(key = "jobs", ttl = TTL)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
