use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_lost = stop)]
fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
