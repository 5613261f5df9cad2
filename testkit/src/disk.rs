//! A disk that is full or slow when a test says so, for a process that believes it is the machine's.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use tempfile::TempDir;

use crate::clock::build;

const LIBRARY: &str = "disk.so";
const STATE: &str = "state";

/// Where the two numbers of four bytes are in the file.
const IS_FULL: u64 = 0;
const DELAY: u64 = 4;

/// A disk for other processes, on which files cannot grow while it is full, and which may be slow.
///
/// It is a small library that the loader puts before the C library, as [`WallClock`](crate::WallClock) is. A write
/// with a position, by which PostgreSQL extends its tables, is refused with `ENOSPC`; its log of transactions still
/// grows. Programs that call the kernel without the C library, such as etcd, do not notice it.
pub struct Disk {
    file: File,
    directory: TempDir,
}

impl Disk {
    /// Makes a disk with room, which is as fast as the machine's. It must live as long as the processes that have it.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it compiles a program")]
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("dlock-disk-").expect("a directory can be made");
        build(include_bytes!("disk.c"), &directory.path().join(LIBRARY));
        let file = File::create(directory.path().join(STATE)).expect("a file can be made");
        let disk = Self { file, directory };
        disk.set(IS_FULL, 0);
        disk.set(DELAY, 0);
        disk
    }

    /// Leaves no room, at once and for processes that run.
    pub fn fill(&self) {
        self.set(IS_FULL, 1);
    }

    /// Makes room again.
    pub fn free(&self) {
        self.set(IS_FULL, 0);
    }

    /// Lets each `fsync` and `fdatasync` take longer by this time, at once and for processes that run.
    pub fn slow_down(&self, by: Duration) {
        let by = u32::try_from(by.as_millis()).expect("no test waits for days");
        self.set(DELAY, by);
    }

    fn set(&self, at: u64, number: u32) {
        // Processes see it in the page that they have mapped.
        let written = self.file.write_all_at(&number.to_ne_bytes(), at);
        written.expect("a file of eight bytes can be written");
    }

    /// What a process starts with that has this disk.
    pub(crate) fn environment(&self) -> [(OsString, OsString); 2] {
        let directory = self.directory.path();
        [
            ("LD_PRELOAD".into(), directory.join(LIBRARY).into()),
            ("DLOCK_DISK".into(), directory.join(STATE).into()),
        ]
    }
}
