// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(list: Vec<u8>) -> Result<usize, LockError> {
    list.push(1);
    Ok(list.len())
}

async fn plain(list: Vec<u8>) -> Result<usize, LockError> {
    list.push(1);
    Ok(list.len())
}

fn main() {}
