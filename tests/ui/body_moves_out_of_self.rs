// mistakes: 2
use dlock::{LockError, distributed_lock};

struct Name(String);

impl Name {
    #[distributed_lock(key = "list")]
    async fn locked(&self) -> Result<String, LockError> {
        Ok(self.0)
    }

    async fn plain(&self) -> Result<String, LockError> {
        Ok(self.0)
    }
}

fn main() {}
