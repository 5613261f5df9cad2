//! A wall clock that a test sets, for a process that believes it is the machine's.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

const LIBRARY: &str = "clock.so";
const TIME: &str = "ahead";

/// A wall clock for other processes, which agrees with the machine's until it is set.
///
/// It is a small library that the loader puts before the C library, built by the C compiler that
/// Rust links with. It needs a loader that knows `LD_PRELOAD`.
pub struct WallClock {
    file: File,
    ahead: AtomicI64,
    directory: TempDir,
}

impl WallClock {
    /// Makes a clock. It must live as long as the processes that have it.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it compiles a program")]
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("dlock-clock-").expect("a directory can be made");
        build(include_bytes!("clock.c"), &directory.path().join(LIBRARY));
        let clock = Self {
            file: File::create(directory.path().join(TIME)).expect("a file can be made"),
            ahead: AtomicI64::new(0),
            directory,
        };
        clock.change(0);
        clock
    }

    /// Lets a process start with this clock.
    pub fn set_for<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment())
    }

    pub(crate) fn environment(&self) -> [(OsString, OsString); 2] {
        let directory = self.directory.path();
        [
            ("LD_PRELOAD".into(), directory.join(LIBRARY).into()),
            ("DLOCK_CLOCK".into(), directory.join(TIME).into()),
        ]
    }

    /// Puts it forward, at once and for processes that run.
    pub fn put_forward(&self, by: Duration) {
        self.change(microseconds(by));
    }

    /// Puts it back.
    pub fn put_back(&self, by: Duration) {
        self.change(-microseconds(by));
    }

    fn change(&self, by: i64) {
        let ahead = self.ahead.fetch_add(by, Ordering::Relaxed) + by;
        // Processes see it in the page that they have mapped.
        let written = self.file.write_all_at(&ahead.to_ne_bytes(), 0);
        written.expect("a file of eight bytes can be written");
    }
}

fn microseconds(by: Duration) -> i64 {
    i64::try_from(by.as_micros()).expect("nobody sets a clock by 300 000 years")
}

/// Makes a library of a C program.
pub(crate) fn build(program: &[u8], library: &Path) {
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-x", "c", "-o"])
        .arg(library)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler is there, as Rust needs one");
    let mut source = compiler.stdin.take().expect("it is piped");
    let written = source.write_all(program);
    written.expect("the compiler reads its source");
    drop(source);
    let ended = compiler.wait().expect("a child of ours can be waited for");
    assert!(
        ended.success(),
        "{} does not compile: {ended}",
        library.display()
    );
}
