use std::rc::Rc;

use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "count:<id>")]
async fn count(id: u8) -> Result<Rc<u8>, LockError> {
    Ok(Rc::new(id))
}

fn main() {
    tokio::spawn(async {
        drop(count(1).await);
    });
}
