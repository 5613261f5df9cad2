// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(count: &str) -> Result<u8, LockError> {
    let count = count.parse()?;
    Ok(count)
}

async fn plain(count: &str) -> Result<u8, LockError> {
    let count = count.parse()?;
    Ok(count)
}

fn main() {}
