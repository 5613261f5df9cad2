// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(list: Vec<u8>) -> Result<u8, LockError> {
    let first = &list[0];
    drop(list);
    Ok(*first)
}

async fn plain(list: Vec<u8>) -> Result<u8, LockError> {
    let first = &list[0];
    drop(list);
    Ok(*first)
}

fn main() {}
