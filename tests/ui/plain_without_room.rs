// mistakes: 2
use dlock::distributed_lock;

#[distributed_lock(key = "jobs", on_lost = finish)]
fn run() -> u32 {
    7
}

#[distributed_lock(key = "jobs", on_lost = finish)]
fn nothing() {}

fn main() {}
