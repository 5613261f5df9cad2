// mistakes: 3
use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs:<id>", on_lost = finish)]
fn run(id: u32) -> Result<u32, LockError> {
    text(id)
}

#[distributed_lock(key = "jobs:<id>", on_lost = finish)]
fn no_value(id: u32) -> Result<u32, LockError> {
    println!("{id}");
}

#[distributed_lock(key = "jobs", on_lost = finish)]
fn awaits() -> Result<u32, LockError> {
    std::future::ready(Ok(7)).await
}

// A message about `Ok` would show source of the standard library, which not every machine has.
fn text(_: u32) -> Result<&'static str, LockError> {
    Ok("seven")
}

fn main() {}
