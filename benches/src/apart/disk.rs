//! Whether the servers wait for their disks, as those in use do.

use std::fmt;

#[derive(Clone, Copy)]
pub(crate) enum Disk {
    Ignored,
    Awaited,
}

impl Disk {
    /// The pace of ways that are woken: a hold, and a rest within it, in µs. What a waiter writes to get its place is
    /// through before the hold ends.
    pub(super) fn pace(self) -> [u64; 2] {
        match self {
            Self::Ignored => [5_000, 2_000],
            Self::Awaited => [25_000, 5_000],
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignored => "without fsync",
            Self::Awaited => "with fsync",
        })
    }
}
