use dlock::{LockError, distributed_lock};

#[distributed_lock(key = ["account:<from>", "rate:<rate>"])]
async fn transfer(from: u64, rate: f64) -> Result<f64, LockError> {
    Ok(from as f64 * rate)
}

fn main() {}
