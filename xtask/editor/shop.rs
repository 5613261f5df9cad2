//! The code that the editor is shown: in each function, every `wanted` is one parameter.

use dlock::{LockError, distributed_lock};

pub struct Order {
    pub id: u64,
}

pub struct Path<T>(pub T);

#[distributed_lock(key = "order:<wanted>", ttl = "30s")]
pub async fn plain(wanted: u64) -> Result<u64, LockError> {
    Ok(wanted)
}

#[distributed_lock(key = "\u{e9}ü\"\\:<wanted>/<wanted>")]
pub async fn escapes(wanted: u64) -> Result<u64, LockError> {
    Ok(wanted + 1)
}

#[distributed_lock(key = r##"ü"#:<wanted>"##)]
pub async fn raw(wanted: u64) -> Result<u64, LockError> {
    Ok(wanted)
}

#[distributed_lock(
    key = "order:\
        <wanted>:lines",
    lease = lease
)]
pub async fn several_lines(wanted: u64) -> Result<u64, LockError> {
    lease.ensure_held()?;
    Ok(wanted)
}

#[distributed_lock(key = "order:<wanted.0.number>/<wanted.1>")]
pub async fn paths(wanted: (Number, u64)) -> Result<u64, LockError> {
    Ok(wanted.0.number)
}

pub struct Number {
    pub number: u64,
}

#[distributed_lock(key = "shop:<shop>/<wanted>")]
pub async fn patterns(Path((shop, wanted)): Path<(u32, u64)>) -> Result<u64, LockError> {
    Ok(u64::from(shop) + wanted)
}

#[distributed_lock(key = ["shop:<shop>", "order:<wanted>/<shop>", "item:<wanted>"])]
pub async fn lists(shop: u64, wanted: u64) -> Result<u64, LockError> {
    Ok(shop + wanted)
}

#[distributed_lock(key = "job:<wanted>", enabled = wanted > 0, on_busy = skip, metric = "job")]
pub async fn jobs(wanted: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(wanted))
}

impl Order {
    #[distributed_lock(key = "order:<self.id>/<wanted>", on_busy = Ok(wanted))]
    pub async fn methods(&self, wanted: u64) -> Result<u64, LockError> {
        Ok(self.id + wanted)
    }
}
