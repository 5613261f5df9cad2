use dlock::{LockError, distributed_lock};

#[distributed_lock(key = vec!["account:<from>", "account:<to>"])]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
