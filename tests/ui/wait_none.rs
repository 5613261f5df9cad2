use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", wait = None)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
