use dlock::{LockError, distributed_lock};

#[distributed_lock(key = [shared("order:<id>"), shared("order:<id>")])]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
