use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", ttl = "99999999999999999999s")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
