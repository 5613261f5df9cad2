//! The progress of a long reading of all locks, shown at a terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    pin::pin,
    time::Duration,
};

use dlock::admin::Inspector;
use tokio::time::sleep;

use crate::global::Global;

/// A look that takes no longer needs no words.
const AT_FIRST: Duration = Duration::from_millis(700);

/// Advice for commands that have the option.
pub(crate) const SLOW: &str = ", slowly, to spare the server; `--fast` does not";

const EVERY: Duration = Duration::from_millis(300);

/// The result of `look`. When it takes long, the standard error shows its progress, and `advice`, in a line that is
/// removed at the end. Without a terminal there is no such line.
pub(crate) async fn with_progress<T>(
    global: &Global,
    inspector: &Inspector,
    advice: &str,
    look: impl Future<Output = T>,
) -> T {
    let mut look = pin!(look);
    if global.json || global.verbose > 0 || !stderr().is_terminal() {
        return look.await;
    }
    let mut line = Line(false);
    let mut pause = AT_FIRST;
    loop {
        tokio::select! {
            done = &mut look => return done,
            () = sleep(pause) => {}
        }
        pause = EVERY;
        if let Some(percent) = percent(inspector) {
            line.is(&format!("dlock: {percent} % of the keys looked at{advice}"));
        }
    }
}

/// The progress of the look that is under way.
pub(crate) fn percent(inspector: &Inspector) -> Option<u8> {
    let parts = inspector.progress()? * 100.0;
    // The end is not a number but the result.
    (0..100).rev().find(|&it| f64::from(it) <= parts)
}

/// A line that is written over, and taken away when this is dropped.
struct Line(bool);

impl Line {
    const CLEAR: &str = "\r\x1b[K";

    fn is(&mut self, text: &str) {
        self.0 = true;
        let mut terminal = stderr().lock();
        drop(write!(terminal, "{}{text}", Self::CLEAR).and_then(|()| terminal.flush()));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.0 {
            let mut terminal = stderr().lock();
            drop(write!(terminal, "{}", Self::CLEAR).and_then(|()| terminal.flush()));
        }
    }
}
