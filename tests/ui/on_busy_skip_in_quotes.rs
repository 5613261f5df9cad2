use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_busy = "skip")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
