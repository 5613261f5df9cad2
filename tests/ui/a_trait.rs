use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
trait Shop {
    async fn pay();
}

fn main() {}
