// mistakes: 2
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "list")]
async fn locked<'a>(one: &'a str, two: &str) -> Result<&'a str, LockError> {
    Ok(if one.is_empty() { two } else { one })
}

async fn plain<'a>(one: &'a str, two: &str) -> Result<&'a str, LockError> {
    Ok(if one.is_empty() { two } else { one })
}

fn main() {}
