use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", max_hold = "1500")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
