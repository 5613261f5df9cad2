use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>/<item.name>", ttl = 30)]
async fn settle(id: u64, item: Item) -> Result<(), LockError> {
    Ok(())
}

struct Item {
    name: String,
}

fn main() {}
