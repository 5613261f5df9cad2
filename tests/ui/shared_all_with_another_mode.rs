// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = [shared("order:<id>"), shared("tenant")], permits = 3)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = [shared("order:<id>"), shared("tenant")], mode = exclusive)]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
