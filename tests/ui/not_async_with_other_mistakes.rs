// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "job:<idd>", ttl = 30)]
fn run(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
