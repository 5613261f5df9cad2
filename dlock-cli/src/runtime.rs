//! The runtime of the program, with a bounded number of threads.

use std::{panic, process, thread};

use tokio::runtime::{Builder, Runtime};

use crate::exit::{Exit, Failure};

/// The limit for threads that poll tasks. Machines with more processors need no more for the I/O of one command, and
/// `TasksMax` of the unit of `dlock serve` leaves room for these and the next ones.
const WORKERS: usize = 16;

/// The limit for threads that resolve names and read files.
const BLOCKING: usize = 32;

/// Starts the runtime.
///
/// # Errors
///
/// A failure if the system refuses what the runtime needs. If it refuses a thread, this function ends the process with the
/// same exit code, because a runtime that could not start all of its threads panics and then waits for them forever.
pub(crate) fn start() -> Result<Runtime, Failure> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    panic::set_hook(Box::new(|panic| {
        let reason = panic.payload().downcast_ref::<String>();
        failed(reason.map_or("a panic", String::as_str)).report(false);
        process::exit(Exit::Internal.code().into());
    }));
    let runtime = Builder::new_multi_thread()
        .worker_threads(processors.min(WORKERS))
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build();
    drop(panic::take_hook());
    runtime.map_err(|error| failed(&error.to_string()))
}

fn failed(reason: &str) -> Failure {
    let message = format!(
        "cannot start the threads of this program: {reason}; raise the limit of processes, such as `ulimit -u` or \
         `TasksMax` of systemd"
    );
    Failure::new(Exit::Internal, message)
}
