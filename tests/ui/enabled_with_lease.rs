use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", lease = lease, enabled = replicas > 1)]
async fn run(replicas: u32) -> Result<u32, LockError> {
    lease.ensure_held()?;
    Ok(replicas)
}

fn main() {}
