use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["account:<from>", "account:<from>"])]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
