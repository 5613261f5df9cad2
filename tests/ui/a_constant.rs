use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
const PAY: fn() = main;

fn main() {}
