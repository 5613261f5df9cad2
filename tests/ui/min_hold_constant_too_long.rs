use std::time::Duration;

use dlock::{LockError, distributed_lock};

const TWO_DAYS: Duration = Duration::from_secs(48 * 3600);

#[distributed_lock(key = "jobs", min_hold = TWO_DAYS)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
