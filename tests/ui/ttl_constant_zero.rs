use dlock::{LockError, distributed_lock};

const TTL: std::time::Duration = std::time::Duration::ZERO;

// Never called with any type, and still an error.
#[distributed_lock(key = "jobs", ttl = TTL)]
async fn run<T: Send>(job: T) -> Result<T, LockError> {
    Ok(job)
}

fn main() {}
