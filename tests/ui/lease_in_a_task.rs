use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list", lease = held)]
async fn renew() -> Result<(), LockError> {
    tokio::spawn(async move { held.ensure_held() });
    Ok(())
}

fn main() {}
