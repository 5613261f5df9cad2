use std::time::Duration;

use dlock::{LockError, distributed_lock};

const TWO_DAYS: Duration = Duration::from_secs(48 * 3600);

// Nobody calls it, and it depends on a type that nobody chose.
#[distributed_lock(key = "jobs", ttl = TWO_DAYS)]
pub async fn run<T>(_job: T) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
