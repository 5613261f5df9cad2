//! A disk that is full when a test says so, for a process that believes it is the machine's.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use crate::clock::build;

const LIBRARY: &str = "disk.so";
const STATE: &str = "is_full";

/// A disk for other processes, on which files cannot grow while it is full.
///
/// It is a small library that the loader puts before the C library, as [`WallClock`](crate::WallClock) is. A write
/// with a position, by which PostgreSQL extends its tables, is refused with `ENOSPC`; its log of transactions still
/// grows.
pub struct Disk {
    file: File,
    directory: TempDir,
}

impl Disk {
    /// Makes a disk with room. It must live as long as the processes that have it.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it compiles a program")]
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("dlock-disk-").expect("a directory can be made");
        build(include_bytes!("disk.c"), &directory.path().join(LIBRARY));
        let file = File::create(directory.path().join(STATE)).expect("a file can be made");
        let disk = Self { file, directory };
        disk.set(0);
        disk
    }

    /// Leaves no room, at once and for processes that run.
    pub fn fill(&self) {
        self.set(1);
    }

    /// Makes room again.
    pub fn free(&self) {
        self.set(0);
    }

    fn set(&self, is_full: u8) {
        // Processes see it in the page that they have mapped.
        let written = self.file.write_all_at(&[is_full], 0);
        written.expect("a file of one byte can be written");
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
