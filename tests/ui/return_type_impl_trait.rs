use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
async fn run() -> impl Iterator<Item = u8> {
    std::iter::empty()
}

fn main() {}
