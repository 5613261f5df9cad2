use dlock::{LockError, distributed_lock};

const MOST: usize = 3;

#[distributed_lock(key = "order:<id>", permits = MOST)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
