use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<di>", lease = lease)]
async fn pay(id: u64) -> Result<u64, LockError> {
    println!("{}", lease.key());
    Ok(id)
}

fn main() {}
