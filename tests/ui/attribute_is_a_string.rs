// mistakes: 2
// The first error is the compiler's, which lets no macro attribute have a value.
use dlock::{LockError, distributed_lock};

#[distributed_lock = "order:<id>"]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
