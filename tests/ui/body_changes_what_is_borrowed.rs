// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(mut list: Vec<u8>) -> Result<u8, LockError> {
    let first = &list[0];
    list.push(1);
    Ok(*first)
}

async fn plain(mut list: Vec<u8>) -> Result<u8, LockError> {
    let first = &list[0];
    list.push(1);
    Ok(*first)
}

fn main() {}
