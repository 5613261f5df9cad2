// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", mode = permits)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = permits(3))]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = semaphore)]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
