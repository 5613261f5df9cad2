use dlock::{LockError, distributed_lock};

struct Orders;

#[async_trait::async_trait]
trait Pay {
    async fn pay(&self, ids: (u64, u64)) -> Result<u64, LockError>;
}

#[async_trait::async_trait]
impl Pay for Orders {
    #[distributed_lock(key = "order:<shop>")]
    async fn pay(&self, (shop, id): (u64, u64)) -> Result<u64, LockError> {
        Ok(shop + id)
    }
}

fn main() {}
