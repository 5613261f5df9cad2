use dlock::{LockError, distributed_lock};

#[allow(async_fn_in_trait)]
trait Jobs {
    #[distributed_lock(key = "jobs")]
    async fn run(&self) -> Result<(), LockError>;
}

fn main() {}
