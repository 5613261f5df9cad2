use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_busy = skip)]
async fn run() -> Result<u64, LockError> {
    Ok(1)
}

fn main() {}
