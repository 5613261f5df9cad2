use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id.99999999999>")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
