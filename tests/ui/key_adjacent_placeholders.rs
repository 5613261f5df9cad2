use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<shop><id>")]
async fn pay(shop: u32, id: u64) -> Result<u64, LockError> {
    Ok(id + u64::from(shop))
}

fn main() {}
