// mistakes: 5
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["account:<form>", "account:<to", 7, "<from><to>"], ttl = 30)]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
