use dlock::distributed_lock;

#[distributed_lock(key = "jobs", on_busy = skip, on_error = |_| vec![].into_iter())]
async fn run() -> impl Iterator<Item = u8> {
    vec![1].into_iter()
}

fn main() {}
