use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn pay(id: Option<u64>) -> Result<u64, LockError> {
    Ok(id.unwrap_or(0))
}

fn main() {}
