// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(name: String) -> Result<(), LockError> {
    for _ in 0..2 {
        drop(name);
    }
    Ok(())
}

async fn plain(name: String) -> Result<(), LockError> {
    for _ in 0..2 {
        drop(name);
    }
    Ok(())
}

fn main() {}
