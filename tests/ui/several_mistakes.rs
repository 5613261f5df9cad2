// mistakes: 6
use dlock::distributed_lock;

#[distributed_lock(key = "order:<di>/<id", ttl = 30, renew = maybe, retry = 3)]
async fn pay(id: u64) {
    drop(id);
}

fn main() {}
