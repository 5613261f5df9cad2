// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock("order:<id>", "30s")]
async fn key_and_ttl(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "30s", "5s", "orders")]
async fn the_rest(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
