use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<shop>/<id>")]
async fn settle(id: u64, #[cfg(any())] shop: u32) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<shop>/<id>")]
async fn kept(id: u64, #[cfg(all())] shop: u32) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
