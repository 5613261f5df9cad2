use dlock::{KeyPart, LockError, distributed_lock};

#[derive(KeyPart)]
struct Id<T>(T);

#[distributed_lock(key = "job:<id>")]
async fn run(id: Id<f32>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
