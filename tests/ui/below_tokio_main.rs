use dlock::{LockError, distributed_lock};

#[tokio::main]
#[distributed_lock(key = "jobs")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
