// mistakes: 2
use std::pin::Pin;

use dlock::{LockError, distributed_lock};

struct Shop;

// An attribute above, such as `#[trace]`, has put the block of `#[async_trait]` into a call.
impl Shop {
    #[distributed_lock(key = "order:<id>")]
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        id: u64,
    ) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(traced(async move { Ok(id) }))
    }
}

#[distributed_lock(key = "order:<id>")]
fn pay(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    traced(async move { Ok(id) })
}

fn traced<F: Future>(body: F) -> F {
    body
}

fn main() {}
