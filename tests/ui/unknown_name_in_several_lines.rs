use dlock::{LockError, distributed_lock};

#[distributed_lock(
    key = "\
        Größe:<größe>/\
        <gröse>"
)]
async fn pay(größe: u64) -> Result<u64, LockError> {
    Ok(größe)
}

fn main() {}
