// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(count: u8) -> Result<u8, LockError> {
    count
}

async fn plain(count: u8) -> Result<u8, LockError> {
    count
}

fn main() {}
