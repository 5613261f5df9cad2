// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", mode = shared())]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = write())]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
