// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(name: &str) -> Result<usize, LockError> {
    Ok(name.length())
}

async fn plain(name: &str) -> Result<usize, LockError> {
    Ok(name.length())
}

fn main() {}
