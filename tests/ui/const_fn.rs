use dlock::distributed_lock;

#[distributed_lock(key = "jobs")]
const fn pay() {}

fn main() {}
