use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_busy = 7)]
fn run() -> impl Future<Output = Result<(), LockError>> {
    async move { Ok(()) }
}

fn main() {}
