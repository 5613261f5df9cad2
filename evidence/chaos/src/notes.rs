//! Notes of a worker about its sections, line by line, so that they are known even if it is killed.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use dlock_history::{End, Mode};
use serde::{Deserialize, Serialize};

/// Times are the machine's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// A task asks for a lock.
    Asks { task: u32 },
    /// The lock is to be shared. The store may have granted it before the call has a section, or without that: surely
    /// before, where the call gives a lease back while it waits for another key.
    Shares {
        task: u32,
        key: String,
        at: Duration,
        waits_for_others: bool,
    },
    /// Its call has ended.
    Answered { task: u32, at: Duration },
    /// A section began.
    In {
        section: u64,
        key: String,
        mode: Mode,
        task: u32,
        token: i64,
        asked: Duration,
        at: Duration,
        /// Whether it writes without asking whether it still holds the lock.
        is_blind: bool,
    },
    /// Its task still believes to hold the lock.
    On { section: u64, at: Duration },
    /// It ended; the last moment at which its task believed that.
    Out {
        section: u64,
        at: Duration,
        end: End,
    },
    /// A body began when its lease was lost already, so that it was never inside.
    Late {
        key: String,
        mode: Mode,
        task: u32,
        token: i64,
        asked: Duration,
        at: Duration,
    },
    /// The machine gave the process no processor in this time.
    StoodStill { from: Duration, to: Duration },
    /// A call that came to nothing, and how.
    Failed(String),
    /// A transaction of the task has read the account of this key, and goes on to work.
    Read { task: u32, key: String },
    /// It is about to write.
    Writes { task: u32 },
    /// A transaction of the task that was carried out.
    Posted { task: u32 },
    /// A fault that a task has seen.
    Wrong(String),
}

/// Where one process notes its sections.
pub(crate) struct Notes {
    file: File,
    sections: AtomicU64,
}

pub(crate) fn path(directory: &Path, process: u32) -> PathBuf {
    directory.join(format!("notes-{process}"))
}

impl Notes {
    pub(crate) fn new(directory: &Path, process: u32) -> io::Result<Self> {
        let options = File::options()
            .create_new(true)
            .append(true)
            .open(path(directory, process));
        Ok(Self {
            file: options?,
            sections: AtomicU64::new(0),
        })
    }

    /// A number for a section.
    pub(crate) fn section(&self) -> u64 {
        self.sections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn note(&self, note: &Note) {
        let mut line = serde_json::to_vec(note).expect("a note is JSON");
        line.push(b'\n');
        // One write at the end of the file: it is there as a whole, or not at all.
        (&self.file).write_all(&line).expect("there is room");
    }
}
