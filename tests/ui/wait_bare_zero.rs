use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", wait = 0)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
