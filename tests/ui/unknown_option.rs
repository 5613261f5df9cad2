use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", tll = "30s")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
