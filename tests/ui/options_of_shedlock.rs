// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(name = "report", lockAtMostFor = "14m", lockAtLeastFor = "10m")]
async fn report() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
