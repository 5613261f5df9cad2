use dlock::{LockError, distributed_lock};

struct Jobs<const MOST: u32>;

impl<const MOST: u32> Jobs<MOST> {
    #[distributed_lock(key = "jobs:<id>", permits = MOST)]
    async fn settle(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
