use dlock::{LockError, distributed_lock};

const METRIC: &str = "jobs";

#[distributed_lock(key = "jobs", metric = METRIC)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
