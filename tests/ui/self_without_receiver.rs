use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs:<self.id>")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
