use std::rc::Rc;

use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "count:<id>")]
async fn count(id: u8) -> Result<u8, LockError> {
    let shared = Rc::new(id);
    tokio::task::yield_now().await;
    Ok(*shared)
}

fn main() {
    tokio::spawn(count(1));
}
