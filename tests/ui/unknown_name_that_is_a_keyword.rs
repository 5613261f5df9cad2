use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<type>")]
async fn pay(kind: u64) -> Result<u64, LockError> {
    Ok(kind)
}

fn main() {}
