//! The standard output.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    text::printable_json,
};

/// One JSON document, for people to read as well.
pub(crate) fn document(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("what is shown has texts for keys");
    line(&printable_json(&text))
}

/// One of several JSON documents, in a line of its own.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).expect("what is shown has texts for keys");
    line(&printable_json(&text))
}

/// One line. A reader that has gone is a failure, which ends the program quietly.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    print(&[text.as_bytes(), b"\n"])
}

/// Several lines, with the end of the last one.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    print(&[text.as_bytes()])
}

fn print(parts: &[&[u8]]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let written = parts.iter().try_for_each(|part| output.write_all(part));
    let written = written.and_then(|()| output.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => Failure::new(Exit::Internal, format!("cannot write the output: {error}")),
    })
}

/// `true` if the output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// `true` if the reader has closed the output, which a program that writes seldom would not notice.
#[cfg(unix)]
pub(crate) fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let output = io::stdout();
    let mut asked = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec::default();
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().intersects(gone)
}

#[cfg(not(unix))]
pub(crate) fn is_closed() -> bool {
    false
}
