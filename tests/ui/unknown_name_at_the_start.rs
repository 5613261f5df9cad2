use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "<oder_id>:order")]
async fn pay(order_id: u64, amount: u64) -> Result<u64, LockError> {
    Ok(order_id + amount)
}

fn main() {}
