// mistakes: 7
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", mode = read)]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = reader)]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = READERS)]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = write)]
async fn fourth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = LockMode::Write)]
async fn fifth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = rw)]
async fn sixth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", mode = shraed)]
async fn seventh(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
