use dlock::{LockError, distributed_lock};

fn is_shared(shop: String) -> bool {
    shop.len() > 1
}

#[distributed_lock(key = "jobs", enabled = is_shared(shop))]
async fn run(shop: String) -> Result<String, LockError> {
    Ok(shop)
}

fn main() {}
