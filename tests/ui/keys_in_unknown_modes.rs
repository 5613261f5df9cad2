// mistakes: 6
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = [read("order:<id>"), "tenant"])]
async fn first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["tenant", exclusive("order:<id>")])]
async fn second(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["tenant", permits(3, "order:<id>")])]
async fn third(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["tenant", sharde("order:<id>")])]
async fn fourth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["tenant", upgradable("order:<id>")])]
async fn fifth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["order:<id>", read()])]
async fn sixth(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
