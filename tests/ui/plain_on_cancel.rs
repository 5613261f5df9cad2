use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_cancel = detach, on_lost = finish)]
fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
