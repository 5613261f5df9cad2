// mistakes: 4
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs")]
async fn statement() -> Result<(), LockError> {
    let id = 1;
    let next =
}

#[distributed_lock(key = "jobs")]
async fn branch() -> Result<(), LockError> {
    if true { Ok(()) } else
}

#[distributed_lock(key = "jobs", ttl = 30)]
async fn beside_another_mistake() -> Result<(), LockError> {
    let next = ;
}

fn main() {}
