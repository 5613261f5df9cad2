use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", on_cancel = detach)]
async fn pay(id: &str) -> Result<usize, LockError> {
    Ok(id.len())
}

fn main() {}
