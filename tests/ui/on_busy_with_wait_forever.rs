use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", wait = forever, on_busy = Ok(()))]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
