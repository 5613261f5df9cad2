use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "job:<id>")]
async fn run<T: Send>(id: T) -> Result<T, LockError> {
    Ok(id)
}

fn main() {}
