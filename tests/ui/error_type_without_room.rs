use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
async fn run() -> Result<u64, String> {
    Ok(1)
}

fn main() {}
