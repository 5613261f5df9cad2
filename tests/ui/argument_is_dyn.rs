use std::fmt::Display;

use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "job:<id>")]
async fn run(id: &(dyn Display + Sync)) -> Result<String, LockError> {
    Ok(id.to_string())
}

fn main() {}
