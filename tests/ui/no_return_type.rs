use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
async fn run() {}

fn main() {}
