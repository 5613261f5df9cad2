use dlock::{LockError, distributed_lock as locked};

#[locked(key = "account:<from>")]
#[locked(key = "account:<to>")]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
