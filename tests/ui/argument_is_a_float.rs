use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "price:<price>")]
async fn change(price: f64) -> Result<f64, LockError> {
    Ok(price)
}

fn main() {}
