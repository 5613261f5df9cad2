use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<r#order.name>/<r#oder.name>")]
async fn settle(order: Order) -> Result<(), LockError> {
    Ok(())
}

struct Order {
    name: String,
}

fn main() {}
