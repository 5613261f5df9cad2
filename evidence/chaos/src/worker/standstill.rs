//! Notes when the process stands still without a stop by the run, as on a machine without a free processor.

use std::{sync::Arc, thread, time::Duration};

use dlock_testkit::machine_time;

use crate::notes::{Note, Notes};

const PAUSE: Duration = Duration::from_millis(20);

/// A pause that lasts this long is a standstill.
const LEAST: Duration = Duration::from_millis(60);

/// Starts a thread that watches over the process as long as that lives.
pub(super) fn watch(notes: Arc<Notes>) {
    thread::spawn(move || {
        let mut from = machine_time();
        loop {
            thread::sleep(PAUSE);
            let to = machine_time();
            if to.saturating_sub(from) >= LEAST {
                notes.note(&Note::StoodStill { from, to });
            }
            from = to;
        }
    });
}
