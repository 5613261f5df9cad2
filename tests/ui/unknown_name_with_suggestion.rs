use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<oder_id>", ttl = "30s")]
async fn pay(order_id: u64, amount: u32) -> Result<u64, LockError> {
    Ok(order_id + u64::from(amount))
}

fn main() {}
