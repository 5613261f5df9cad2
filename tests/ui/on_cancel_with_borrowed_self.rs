use dlock::{LockError, distributed_lock};

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<id>", on_cancel = detach)]
    async fn pay(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
