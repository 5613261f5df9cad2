// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock(keys = {"#order.id"}, expire = 60000, acquireTimeout = 1000, autoRelease = false)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
