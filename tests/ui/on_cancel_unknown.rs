use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "orders", on_cancel = wait)]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
