//! Draws the journal as a time line, and counts what happened.

use std::{
    env,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use crate::visit::{Entry, Step};

const COLUMNS: u32 = 64;
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// A visitor's name, and what its row shows while it holds the lock.
fn name(visitor: usize) -> (String, char, &'static str) {
    if visitor == 0 {
        ("writer".to_owned(), '█', YELLOW)
    } else {
        (format!("reader {visitor}"), '▒', GREEN)
    }
}

/// The terminal, or a file or pipe that gets the last picture only, without colors.
pub(crate) struct Screen {
    is_live: bool,
    has_colors: bool,
    rows: usize,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let is_live = io::stdout().is_terminal();
        let has_colors = is_live && env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
        Self {
            is_live,
            has_colors,
            rows: 0,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Draws a row for each visitor, over the rows that it drew before.
    pub(crate) fn draw(
        &mut self,
        entries: &[Entry],
        readers: usize,
        now: Duration,
        length: Duration,
    ) -> io::Result<()> {
        let mut picture = String::new();
        if self.rows > 0 {
            picture = format!("\x1b[{}A", self.rows);
        }
        let column = length / COLUMNS;
        for visitor in (1..=readers).chain([0]) {
            let (name, inside, color) = name(visitor);
            let mut row = String::new();
            for number in 0..COLUMNS {
                // One moment for each column: no two rows can seem to overlap that did not.
                let at = column * number + column / 2;
                let last = entries
                    .iter()
                    .rfind(|entry| entry.visitor == visitor && entry.at <= at);
                row.push(match last.map(|entry| entry.step) {
                    _ if at > now => ' ',
                    Some(Step::Waits) => '·',
                    Some(Step::Begins(_)) => inside,
                    Some(Step::Ends { .. }) | None => ' ',
                });
            }
            let row = row.trim_end();
            if self.has_colors {
                picture.extend([
                    "\x1b[2K",
                    &format!("  {name:<9}  {color}{row}{PLAIN}"),
                    "\n",
                ]);
            } else if self.is_live {
                picture.extend(["\x1b[2K", &format!("  {name:<9}  {row}"), "\n"]);
            } else {
                picture.extend([format!("  {name:<9}  {row}").trim_end(), "\n"]);
            }
        }
        self.rows = if self.is_live { readers + 1 } else { 0 };
        let mut out = io::stdout().lock();
        out.write_all(picture.as_bytes())?;
        out.flush()
    }
}

/// The counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) reads: usize,
    pub(crate) writes: usize,
    /// How often the writer and a reader held the lock at the same time.
    pub(crate) overlaps: usize,
    /// Reads that found articles of two editions.
    pub(crate) mixed: usize,
    /// How often a later section had a smaller token: a writer's is greater than all before it, and a reader's
    /// greater than those of all writers before it.
    pub(crate) disorders: usize,
    pub(crate) most_readers: usize,
    pub(crate) longest_wait: Duration,
}

impl Summary {
    pub(crate) fn of(entries: &[Entry], with_lock: bool) -> Self {
        let mut summary = Self::default();
        let (mut readers, mut is_writing, mut waits_since) = (0_usize, false, Duration::ZERO);
        let (mut newest_of_writers, mut newest) = (0, 0);
        for entry in entries {
            let is_writer = entry.visitor == 0;
            match entry.step {
                Step::Waits if is_writer => waits_since = entry.at,
                Step::Waits => {}
                Step::Begins(token) => {
                    let older = if is_writer { newest } else { newest_of_writers };
                    summary.disorders += usize::from(with_lock && token <= older);
                    newest = newest.max(token);
                    if is_writer {
                        is_writing = true;
                        newest_of_writers = token;
                        summary.overlaps += readers;
                        let waited = entry.at.saturating_sub(waits_since);
                        summary.longest_wait = summary.longest_wait.max(waited);
                    } else {
                        readers += 1;
                        summary.overlaps += usize::from(is_writing);
                        summary.most_readers = summary.most_readers.max(readers);
                    }
                }
                Step::Ends { .. } if is_writer => {
                    is_writing = false;
                    summary.writes += 1;
                }
                Step::Ends { is_mixed } => {
                    readers -= 1;
                    summary.reads += 1;
                    summary.mixed += usize::from(is_mixed);
                }
            }
        }
        summary
    }

    pub(crate) fn is_right(&self) -> bool {
        self.writes > 0 && self.reads > 0 && self.overlaps + self.mixed + self.disorders == 0
    }

    pub(crate) fn print(&self) {
        let Self {
            reads,
            writes,
            overlaps,
            mixed,
            disorders,
            most_readers,
            longest_wait,
        } = self;
        println!("  reads: {reads}, writes: {writes}");
        println!("  most readers at the same time: {most_readers}");
        println!(
            "  longest wait of the writer: {:.2} s",
            longest_wait.as_secs_f64()
        );
        println!("  overlaps of the writer with a reader: {overlaps}");
        println!("  reads of a half-written catalog: {mixed}");
        println!("  tokens out of order: {disorders}");
    }
}
