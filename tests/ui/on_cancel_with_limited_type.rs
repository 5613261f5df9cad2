use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "orders", on_cancel = detach)]
async fn pay<T: Send>(order: T) -> Result<T, LockError> {
    Ok(order)
}

fn main() {}
