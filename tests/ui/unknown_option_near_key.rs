use dlock::{LockError, distributed_lock};

#[distributed_lock(kye = "jobs")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
