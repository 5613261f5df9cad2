use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", lease = lease)]
fn run() -> Result<(), LockError> {
    lease.ensure_held()
}

fn main() {}
