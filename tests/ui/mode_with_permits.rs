// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", mode = shared, permits = 3)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", permits = 3, mode = exclusive)]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
