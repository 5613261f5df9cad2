use std::{future::Future, pin::Pin};

use dlock::{LockError, distributed_lock};

#[distributed_lock(key = "jobs", on_lost = finish)]
fn run() -> Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    made()
}

fn made() -> Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    Box::pin(async { Ok(()) })
}

fn main() {}
