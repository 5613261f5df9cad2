use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", metric = "a-job-that-has-a-longer-name-than-is-of-use-to-anybody-who-reads-graphs")]
async fn run() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
