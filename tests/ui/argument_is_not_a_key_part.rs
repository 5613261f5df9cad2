use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "upload:<bytes>")]
async fn upload(bytes: Vec<u8>) -> Result<usize, LockError> {
    Ok(bytes.len())
}

fn main() {}
