use dlock::{LockError, LockManager, distributed_lock};

struct Orders;

struct State {
    locks: LockManager,
}

#[async_trait::async_trait]
trait Pay {
    async fn pay(&self, ids: (State, u64)) -> Result<u64, LockError>;
}

#[async_trait::async_trait]
impl Pay for Orders {
    #[distributed_lock(key = "order", manager = state.locks)]
    async fn pay(&self, (state, id): (State, u64)) -> Result<u64, LockError> {
        drop(state);
        Ok(id)
    }
}

fn main() {}
