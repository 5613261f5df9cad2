use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", renew = "no")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
