use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", metric = "settle order")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
