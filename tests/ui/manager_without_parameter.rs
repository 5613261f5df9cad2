use dlock::{LockError, LockManager, distributed_lock};

struct State(LockManager);

#[distributed_lock(key = "order:<id>", manager = state.0)]
async fn pay(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _ = State;
}
