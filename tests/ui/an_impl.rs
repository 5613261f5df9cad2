use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
impl Shop {
    async fn pay() {}
}

struct Shop;

fn main() {}
