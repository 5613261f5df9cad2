// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(name: &str) -> Result<(), LockError> {
    tokio::spawn(async move { println!("{name}") });
    Ok(())
}

async fn plain(name: &str) -> Result<(), LockError> {
    tokio::spawn(async move { println!("{name}") });
    Ok(())
}

fn main() {}
