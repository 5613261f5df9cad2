// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked(mut list: Vec<u8>) -> Result<(), LockError> {
    let one = &mut list;
    let two = &mut list;
    one.push(1);
    two.push(2);
    Ok(())
}

async fn plain(mut list: Vec<u8>) -> Result<(), LockError> {
    let one = &mut list;
    let two = &mut list;
    one.push(1);
    two.push(2);
    Ok(())
}

fn main() {}
