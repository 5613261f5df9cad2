use dlock::distributed_lock;

#[distributed_lock(key = "jobs", on_error = |error| error.to_string())]
async fn run() -> u64 {
    1
}

fn main() {}
