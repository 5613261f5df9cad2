// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:$id")]
async fn dollar(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<<id>>")]
async fn brackets(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "/orders/:id")]
async fn colon(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["shop:<shop>", "order:[id]"])]
async fn in_a_list(shop: u64, id: u64) -> Result<u64, LockError> {
    Ok(shop + id)
}

fn main() {}
