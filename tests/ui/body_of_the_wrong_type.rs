use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn name(id: u64) -> Result<String, LockError> {
    let name: String = id;
    Ok(name)
}

fn main() {}
