use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", ttl = seconds)]
async fn run(seconds: u64) -> Result<u64, LockError> {
    Ok(seconds)
}

fn main() {}
