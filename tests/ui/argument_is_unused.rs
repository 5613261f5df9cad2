// mistakes: 4
#![deny(unused_variables)]

use dlock::{LockError, distributed_lock};

struct Pair {
    one: String,
    two: String,
}

#[distributed_lock(key = "jobs")]
async fn locked(id: u64, (name, _): (String, u8), Pair { one, two }: Pair) -> Result<(), LockError> {
    println!("{one}{two}");
    Ok(())
}

async fn plain(id: u64, (name, _): (String, u8), Pair { one, two }: Pair) -> Result<(), LockError> {
    println!("{one}{two}");
    Ok(())
}

fn main() {}
