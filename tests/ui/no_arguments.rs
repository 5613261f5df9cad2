use dlock::{LockError, distributed_lock};

#[distributed_lock]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
