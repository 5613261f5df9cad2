use std::rc::Rc;

use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "orders", on_cancel = detach)]
async fn pay(id: u64) -> Result<u64, LockError> {
    let shared = Rc::new(id);
    tokio::task::yield_now().await;
    Ok(*shared)
}

fn main() {}
