//! The directories in which servers keep their data: in memory, where there is enough of it and `TMPDIR` names no other place.
//!
//! A new PostgreSQL has a thousand files, and etcd waits for its disk at each write. What a disk does to a server is
//! the subject of [`Disk`](crate::Disk) alone.

use std::env;
use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";

/// The room for the servers of all tests that run at a time. In a container there are often 64 MiB.
const ENOUGH: u64 = 6 << 30;

/// A directory of its own, which is removed when it is dropped.
pub(crate) fn directory(prefix: &str) -> TempDir {
    static IN_MEMORY: LazyLock<bool> = LazyLock::new(|| {
        let free = rustix::fs::statvfs(MEMORY).map_or(0, |it| it.f_bavail * it.f_frsize);
        // The user of such a directory may remove it, and with it the data of killed tests.
        let is_unset = env::var_os("TMPDIR").is_none();
        is_unset && free >= ENOUGH && TempDir::new_in(MEMORY).is_ok()
    });
    let made = if *IN_MEMORY {
        TempDir::with_prefix_in(prefix, Path::new(MEMORY))
    } else {
        TempDir::with_prefix(prefix)
    };
    made.expect("a directory can be made")
}
