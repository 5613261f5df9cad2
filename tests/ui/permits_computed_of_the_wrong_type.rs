use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", permits = id * 2)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
