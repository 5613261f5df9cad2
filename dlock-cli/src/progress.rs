//! The progress of a scan of all keys, shown at a terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    pin::pin,
    time::Duration,
};

use dlock_admin::Inspect;
use ratatui::crossterm::{
    cursor::MoveToColumn,
    queue,
    style::Print,
    terminal::{Clear, ClearType},
};
use tokio::time::sleep;

use crate::global::Global;

/// A scan that is faster than this shows no progress.
const AT_FIRST: Duration = Duration::from_millis(700);

/// The hint of commands that have the option.
pub(crate) const SLOW: &str = "; slow to spare the server, use `--fast` for full speed";

const EVERY: Duration = Duration::from_millis(300);

/// Returns the result of `scan`. A scan that takes long shows its progress and `hint` in one line of the standard
/// error, which is removed at the end. Without a terminal there is no such line.
pub(crate) async fn with_progress<T>(
    global: &Global,
    inspector: &dyn Inspect,
    hint: &str,
    scan: impl Future<Output = T>,
) -> T {
    let mut scan = pin!(scan);
    if !is_shown(global) {
        return scan.await;
    }
    let mut line = Line(false);
    let mut pause = AT_FIRST;
    loop {
        tokio::select! {
            done = &mut scan => return done,
            () = sleep(pause) => {}
        }
        pause = EVERY;
        if let Some(percent) = percent(inspector) {
            line.show(&format!("dlock: scanned {percent} % of the keys{hint}"));
        }
    }
}

/// Clears the line of the progress before something else is printed.
pub(crate) fn clear(global: &Global) {
    if is_shown(global) {
        overwrite("");
    }
}

fn is_shown(global: &Global) -> bool {
    !global.json && global.verbose == 0 && stderr().is_terminal()
}

/// Returns the progress of the scan that is under way, in percent.
pub(crate) fn percent(inspector: &dyn Inspect) -> Option<u8> {
    let parts = inspector.progress()? * 100.0;
    // The result follows at once, so 100 % is never shown.
    (0..100).rev().find(|&it| f64::from(it) <= parts)
}

/// A line of the terminal that is overwritten each time, and cleared on drop.
struct Line(bool);

impl Line {
    fn show(&mut self, text: &str) {
        self.0 = true;
        overwrite(text);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.0 {
            overwrite("");
        }
    }
}

fn overwrite(text: &str) {
    let clear = Clear(ClearType::UntilNewLine);
    let mut terminal = stderr().lock();
    let queued = queue!(terminal, MoveToColumn(0), clear, Print(text));
    drop(queued.and_then(|()| terminal.flush()));
}
