// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(name: &str) -> Result<&str, LockError> {
    let lower = name.to_lowercase();
    Ok(lower.as_str())
}

async fn plain(name: &str) -> Result<&str, LockError> {
    let lower = name.to_lowercase();
    Ok(lower.as_str())
}

fn main() {}
