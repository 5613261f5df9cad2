//! A wall clock that a test sets, for a server that believes it is the machine's.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// What lets the process of a server read another wall clock than the machine's.
///
/// It is a small library that the loader puts before the C library, built by the C compiler that
/// Rust links with. It needs a loader that knows `LD_PRELOAD`.
pub(crate) struct WallClock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    ahead: AtomicI64,
}

impl WallClock {
    /// A clock that agrees with the machine's until it is set; its files lie in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let (library, path) = (directory.join("clock.so"), directory.join("clock"));
        build(&library);
        let clock = Self {
            file: File::create(&path).expect("a file can be made"),
            library,
            path,
            ahead: AtomicI64::new(0),
        };
        clock.put_forward(0);
        clock
    }

    pub(crate) fn forward(&self, by: Duration) {
        self.put_forward(microseconds(by));
    }

    pub(crate) fn back(&self, by: Duration) {
        self.put_forward(-microseconds(by));
    }

    /// Lets `command` start with this clock.
    pub(crate) fn set_for(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("DLOCK_CLOCK", &self.path);
    }

    fn put_forward(&self, by: i64) {
        let ahead = self.ahead.fetch_add(by, Ordering::Relaxed) + by;
        // The process sees it in the page that it has mapped.
        let written = self.file.write_all_at(&ahead.to_ne_bytes(), 0);
        written.expect("a file of eight bytes can be written");
    }
}

fn microseconds(by: Duration) -> i64 {
    i64::try_from(by.as_micros()).expect("nobody sets a clock by 300 000 years")
}

fn build(library: &Path) {
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-x", "c", "-o"])
        .arg(library)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler is there, as Rust needs one");
    let mut source = compiler.stdin.take().expect("it is piped");
    let written = source.write_all(include_bytes!("clock.c"));
    written.expect("the compiler reads its source");
    drop(source);
    let ended = compiler.wait().expect("a child of ours can be waited for");
    assert!(ended.success(), "clock.c does not compile: {ended}");
}
