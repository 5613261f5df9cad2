// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock(resources = ["order"], duration = 5000, retryCount = 10, automaticExtensionThreshold = 500)]
async fn settle() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
