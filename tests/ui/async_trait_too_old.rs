use std::{future::Future, pin::Pin};

use dlock::{LockError, distributed_lock};

struct Shop;

// What versions of `async_trait` before 0.1.44 made.
impl Shop {
    #[distributed_lock(key = "order:<id>")]
    fn pay<'a>(&'a self, id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + 'a>> {
        async fn pay(_shop: &Shop, id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
        Box::pin(pay(self, id))
    }
}

fn main() {}
