use dlock::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "settle:order.id")]
async fn settle(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
