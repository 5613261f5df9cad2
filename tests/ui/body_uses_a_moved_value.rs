// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(name: String) -> Result<usize, LockError> {
    let moved = name;
    Ok(moved.len() + name.len())
}

async fn plain(name: String) -> Result<usize, LockError> {
    let moved = name;
    Ok(moved.len() + name.len())
}

fn main() {}
