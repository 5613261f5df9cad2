use dlock::{LockError, distributed_lock};

const TENANT: &str = "nord";

#[distributed_lock(key = "order:<TENANT>/<id>")]
async fn pay(id: u64) -> Result<u64, LockError> {
    println!("{TENANT}");
    Ok(id)
}

fn main() {}
