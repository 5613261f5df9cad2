// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", permits = 3u64)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", permits = 2.5)]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", permits = true)]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
