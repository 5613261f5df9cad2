// mistakes: 5
use dlock::{LockError, distributed_lock};

#[distributed_lock(prefix = "order:", key = "<id>", wait_time = 5, leaseTime = 10, unit = SECONDS, fair = true)]
async fn settle(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
