// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = shared("order:<id>"))]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = read("order:<id>"))]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = exclusive("order:<id>"))]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = permits(3, "order:<id>"))]
async fn fourth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
