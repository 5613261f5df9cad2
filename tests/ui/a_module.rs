use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
mod shop {}

fn main() {}
