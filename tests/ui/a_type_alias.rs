use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
type Pay = fn();

fn main() {}
