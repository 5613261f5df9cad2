use dlock::distributed_lock;

#[distributed_lock(key = "jobs", on_busy = skip)]
async fn run() {}

fn main() {}
