use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", lease = mut lease)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
