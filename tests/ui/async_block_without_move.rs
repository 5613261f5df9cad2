use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs")]
fn run() -> impl Future<Output = Result<(), LockError>> {
    async { Ok(()) }
}

fn main() {}
