use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["a:<id>", "b:<id>"])]
async fn run(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
