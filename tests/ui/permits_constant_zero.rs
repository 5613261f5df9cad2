use dlock::{LockError, distributed_lock};

const MOST: u32 = 0;

#[distributed_lock(key = "jobs:<id>", permits = MOST)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
