// mistakes: 2
use dlock::{LockError, distributed_lock};

macro_rules! payment {
    ($key:literal) => {
        #[distributed_lock(key = $key)]
        async fn pay(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}
payment!("order:<idd>");

macro_rules! refund {
    ($name:ident) => {
        #[distributed_lock(key = "order:<idd>")]
        async fn $name(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}
refund!(refund);

fn main() {}
