use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", max_hold = "0s")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
