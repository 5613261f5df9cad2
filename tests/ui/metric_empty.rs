use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", metric = "")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
