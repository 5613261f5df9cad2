use dlock::{LockError, distributed_lock};
use tokio::task::JoinSet;

#[distributed_lock(key = "list", lease = held)]
async fn renew() -> Result<(), LockError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { held.ensure_held() });
    Ok(())
}

fn main() {}
