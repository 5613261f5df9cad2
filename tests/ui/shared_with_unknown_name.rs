use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["order:<id>", shared("tenant:<tenent>")])]
async fn settle(id: u64, tenant: &str) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
