use dlock::{LockError, distributed_lock};

#[distributed_lock(key = c"order:<id>")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
