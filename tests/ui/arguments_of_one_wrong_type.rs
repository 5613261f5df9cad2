// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<shop>/<id>/<line>")]
async fn settle(shop: Option<u32>, id: u64, line: Option<u32>) -> Result<u64, LockError> {
    drop((shop, line));
    Ok(id)
}

fn main() {}
