use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
#[distributed_lock(key = "shop:<id>")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
