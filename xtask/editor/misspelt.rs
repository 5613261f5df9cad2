use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<wnted>")]
async fn pay(wanted: u64) -> Result<u64, LockError> {
    Ok(wanted)
}

fn main() {}
