use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs")]
async fn run() -> Result<(), LockError> {
    lease.ensure_held()?;
    println!("{}", lease.fencing_token());
    Ok(())
}

fn main() {}
