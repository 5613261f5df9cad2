// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["order:<id>", shared("tenant")], mode = shared)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = [shared("order:<id>"), shared("tenant")], mode = shared)]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(mode = shared, key = [shared("order:<id>")])]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
