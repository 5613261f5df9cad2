// mistakes: 5
use dlock::{LockError, distributed_lock};

#[distributed_lock(name = "order:<id>", timeout = "5s", expire = "30s", blocking, auto_renew = true)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
