use dlock::{LockError, distributed_lock};

const KEY: &str = "jobs";

#[distributed_lock(key = KEY)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
