use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", renew)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
