use dlock::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:<r#ordr.id>")]
async fn pay(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
