use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_busy = skip)]
async fn run(skip: Result<u64, LockError>) -> Result<u64, LockError> {
    skip
}

fn main() {}
