use dlock::{LockError, distributed_lock};

struct Shop {
    id: u64,
}

impl Shop {
    #[distributed_lock(key = "order:<slf.id>")]
    async fn pay(&self) -> Result<u64, LockError> {
        Ok(self.id)
    }
}

fn main() {}
