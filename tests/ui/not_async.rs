use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs")]
fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
