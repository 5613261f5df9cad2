use dlock::{LockError, distributed_lock};

macro_rules! payment {
    ($($key:tt)*) => {
        #[distributed_lock(key = stringify!($($key)*))]
        async fn pay(id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    };
}
payment!(order:<idd>);

fn main() {}
