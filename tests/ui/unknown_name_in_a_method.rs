use dlock::{LockError, distributed_lock};

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<order_id>", lease = lease)]
    async fn pay(&self, orderid: u64) -> Result<u64, LockError> {
        lease.ensure_held()?;
        Ok(orderid)
    }
}

fn main() {}
