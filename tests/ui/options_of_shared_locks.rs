// mistakes: 8
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", read_lock = true, lock_type = READ, shared = "shop")]
async fn read(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", writeLock = true)]
async fn write(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", semaphore = 3, max_concurrency = 3, limit = 3, permit = 3)]
async fn call(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
