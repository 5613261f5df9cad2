use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "\u{e9}\"ü\\\x41:<idd>/<id>")]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
