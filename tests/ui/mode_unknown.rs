use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", mode = upgradable)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
