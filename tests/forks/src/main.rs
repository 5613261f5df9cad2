//! Programs that fork, or that cannot start a thread, in ways that dlock withstands; `tests/run.rs` runs them.
//!
//! A line of output is a word and what it says, and comes from whichever process has something to say.

use std::{
    env, fs,
    future::poll_fn,
    io::{self, Write},
    path::Path,
    pin::pin,
    process,
    task::Poll,
    thread,
    time::Duration,
};

use dlock::{LockError, LockManager, LockManagerBuilder};
use dlock_etcd::Etcd;
use dlock_postgres::Postgres;
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::{
    runtime::{self, Runtime},
    time::sleep,
};

const KEY: &str = "order:42";

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [way, url] if way == "twins" => twins(url),
        [way, url] if way == "guard" => guard(url),
        [way, url] if way == "body" => body(url),
        [way, url] if way == "idle" => idle(url),
        [way, url] if way == "early" => early(url),
        [way] if way == "memory" => memory(),
        [way] if way == "threads" => threads(),
        [way] if way == "no-threads" => no_threads(),
        other => panic!("no such way to fork: {other:?}"),
    }
}

/// A caller that asks once gets its answer from a machine that stands still for a second, too.
fn builder() -> LockManagerBuilder {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let builder = builder.response_timeout(Duration::from_secs(5));
    builder.scheme("etcd", Etcd)
}

/// Two children of a process that has made a manager, which means that it has drawn an id.
fn twins(url: &str) {
    drop(LockManager::memory());
    for _ in 0..2 {
        if let Some(child) = fork() {
            wait_for(child);
            continue;
        }
        one_thread().block_on(async {
            let manager = builder().connect(url).await.expect("the server runs");
            let got = manager.lock(KEY).try_acquire().await;
            match got.expect("the server answers") {
                Some(guard) => say("got", guard.fencing_token()),
                None => say("busy", KEY),
            }
            // The lock is still held when its twin comes.
            process::exit(0);
        });
    }
}

/// A manager and a guard that a child has copies of, with the runtime that they were made on.
fn guard(url: &str) {
    let runtime = one_thread();
    let (manager, guard) = runtime.block_on(async {
        let manager = builder().connect(url).await.expect("the server runs");
        // The connection on the runtime of the callers comes after that on a thread of the store.
        let before = sockets();
        while url.starts_with("etcd:") && sockets() == before {
            let used = manager.lock("order:1").run(async |_| ()).await;
            used.expect("the server answers");
        }
        let guard = manager.lock(KEY).acquire().await.expect("it is free");
        (manager, guard)
    });
    let waiting = manager.lock(KEY).acquire();
    let Some(child) = fork() else {
        runtime.block_on(async {
            for lock in [manager.lock("order:7"), manager.lock_all(["a", "b"])] {
                say("refused", lock.acquire().await.expect_err("it is a fork's"));
            }
            say("refused", waiting.await.expect_err("it is a fork's"));
            say("lost", guard.ensure_held().expect_err("it is a fork's"));
            assert!(
                guard.is_lost() && guard.remaining().is_zero(),
                "broken promise: a child believes in the lease of its parent"
            );
            let body = guard.run_while_held(async { say("ran", KEY) });
            say("lost", body.await.expect_err("it is a fork's"));
            say("lost", guard.lost().await);
            drop(guard);
            manager.shutdown(Duration::MAX).await;
            // What may be left in the background has its time.
            sleep(Duration::from_millis(200)).await;
        });
        // A runtime that is dropped takes the parent's sockets out of the selector they share.
        process::exit(0);
    };
    wait_for(child);
    drop(waiting);
    runtime.block_on(async {
        guard.ensure_held().expect("it is held");
        let other = builder().connect(url).await.expect("the server runs");
        let other = other.lock(KEY).try_acquire().await;
        assert!(
            other.expect("the server answers").is_none(),
            "broken promise: two holders"
        );
        let released = guard.release().await;
        released.expect("nobody else has released it");
        let again = manager.lock(KEY).try_acquire().await;
        let again = again.expect("the server answers").expect("it is free");
        again.release().await.expect("it is held");
        say("done", manager.active_keys());
    });
}

/// A body that forks, and goes on in the child only.
fn body(url: &str) {
    one_thread().block_on(async {
        let manager = builder().connect(url).await.expect("the server runs");
        // The lease is short, as it is left to its end, and long enough for a machine that stands still for a second.
        let lock = manager.lock(KEY).ttl(Duration::from_secs(5));
        let outcome = lock.run(async |lease| {
            if fork().is_some() {
                process::exit(0);
            }
            say("lost", lease.ensure_held().expect_err("it is a fork's"));
            // Nobody wakes it: a child has no thread that renews. It is ended when it goes on by itself.
            sleep(Duration::from_millis(10)).await;
            say("done", "although it has no lease");
        });
        say("lost", outcome.await.expect_err("it is a fork's"));
        process::exit(0);
    });
}

/// A child that runs the runtime of its parent, with all that goes on there by itself.
fn idle(url: &str) {
    let runtime = one_thread();
    // A connection on which nothing happens is asked after five times as long.
    let builder = builder().response_timeout(Duration::from_millis(400));
    let manager = runtime.block_on(builder.connect(url)).expect("it runs");
    let Some(child) = fork() else {
        runtime.block_on(async { sleep(Duration::from_secs(5)).await });
        say("done", manager.active_keys());
        process::exit(0);
    };
    wait_for(child);
    process::exit(0);
}

/// A child that runs the runtime of its parent, on which a connection is about to be made.
fn early(url: &str) {
    end_after(Duration::from_secs(60));
    let runtime = one_thread();
    let manager = runtime.block_on(builder().connect(url)).expect("it runs");
    let mut acquired = pin!(manager.lock(KEY).acquire());
    // The request is sent, and tells the store of this runtime, which is not polled from then on. Its answer may be there
    // already where this thread has stood still.
    let answered = runtime.block_on(poll_fn(|context| {
        Poll::Ready(match acquired.as_mut().poll(context) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        })
    }));
    while runtime.metrics().num_alive_tasks() == 0 {
        thread::yield_now();
    }
    let Some(child) = fork() else {
        // No thread of the parent opens or closes one here.
        let before = sockets();
        runtime.block_on(async { sleep(Duration::from_millis(200)).await });
        assert_eq!(sockets(), before, "the child has made a connection");
        process::exit(0);
    };
    wait_for(child);
    let guard = match answered {
        Some(guard) => guard,
        None => runtime.block_on(acquired),
    };
    let guard = guard.expect("it is free");
    runtime.block_on(guard.release()).expect("it is held");
    say("done", manager.active_keys());
}

/// The sockets of this process.
fn sockets() -> usize {
    let files = fs::read_dir("/proc/self/fd").expect("the system shows them");
    let names = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let is_socket = |name: &Path| name.to_string_lossy().starts_with("socket:");
    names.filter(|name| is_socket(name)).count()
}

/// Locks in memory are locks among the tasks of one process.
fn memory() {
    let runtime = one_thread();
    let manager = LockManager::memory();
    let guard = runtime.block_on(manager.lock(KEY).acquire()).expect("free");
    let Some(child) = fork() else {
        let refused = runtime.block_on(manager.lock("order:7").acquire());
        say("refused", refused.expect_err("it is a fork's"));
        let released: Result<(), LockError> = runtime.block_on(guard.release());
        say("lost", released.expect_err("it is a fork's"));
        process::exit(0);
    };
    wait_for(child);
    runtime.block_on(guard.release()).expect("it is held");
    say("done", manager.active_keys());
}

/// Children of a process whose other threads acquire locks at the moment of the fork.
fn threads() {
    let locks = LockManager::memory().blocking();
    for id in 0..3 {
        let locks = locks.clone();
        thread::spawn(move || {
            loop {
                let guard = locks.lock(format!("order:{id}")).acquire();
                drop(guard.expect("its key is its own"));
            }
        });
    }
    for _ in 0..300 {
        let Some(child) = fork() else {
            end_after(Duration::from_secs(60));
            let guard = LockManager::memory().blocking().lock(KEY).acquire();
            process::exit(i32::from(guard.is_err()));
        };
        wait_for(child);
    }
    say("done", "300 children");
    process::exit(0);
}

/// A process without a thread left; `tests/run.rs` asks for stacks that no machine has.
fn no_threads() {
    let runtime = one_thread();
    let started = thread::Builder::new().spawn(|| ());
    assert!(started.is_err(), "a thread was started");
    let manager = LockManager::memory();
    let ran = runtime.block_on(async { manager.lock(KEY).run(async |_| 7).await });
    say("ran", ran.expect("its own runtime renews"));
    let refused = manager.blocking().lock(KEY).acquire();
    say("refused", refused.expect_err("nothing drives its timers"));
    say("done", manager.active_keys());
}

fn one_thread() -> Runtime {
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("there are descriptors")
}

fn say(word: &str, what: impl std::fmt::Display) {
    // Whole lines, as processes share the output.
    let line = format!("{word} {what}\n");
    let written = io::stdout().write_all(line.as_bytes());
    written.expect("somebody reads");
    io::stdout().flush().expect("somebody reads");
}

/// The child; none in the child itself.
#[expect(unsafe_code, reason = "that a fork does harm is what is looked at")]
fn fork() -> Option<Pid> {
    // SAFETY: the child uses its memory and locks of dlock only, and dlock has none that another thread may have left
    // locked. That is what these programs test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    Pid::from_raw(child)
}

/// Kills this process after `limit`, so that a child that hangs fails the test.
#[expect(unsafe_code, reason = "no crate of the workspace wraps it")]
fn end_after(limit: Duration) {
    let seconds = u32::try_from(limit.as_secs()).expect("a limit of minutes");
    // SAFETY: it only sets a timer.
    unsafe { libc::alarm(seconds) };
}

fn wait_for(child: Pid) {
    let ended = waitpid(Some(child), WaitOptions::empty());
    let (_, status) = ended.expect("it is ours").expect("it was waited for");
    assert_eq!(status.exit_status(), Some(0), "the child has failed");
}
