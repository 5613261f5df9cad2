use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
async fn run() -> u64 {
    1
}

fn main() {}
