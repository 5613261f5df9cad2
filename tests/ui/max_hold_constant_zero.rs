use dlock::{LockError, distributed_lock};

mod config {
    pub const HOLD: std::time::Duration = std::time::Duration::ZERO;
}

#[distributed_lock(key = "jobs", max_hold = config::HOLD)]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
