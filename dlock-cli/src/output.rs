//! Writes to the standard output.

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    text::printable_json,
};

/// Prints one JSON document, indented.
pub(crate) fn document(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("all keys are strings");
    line(&printable_json(&text))
}

/// Prints one of several JSON documents, on a line of its own.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).expect("all keys are strings");
    line(&printable_json(&text))
}

/// Prints one line. A closed pipe is a failure that ends the program without a message.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    print(&[text.as_bytes(), b"\n"])
}

/// Prints `text`, which ends with a line break.
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

/// Returns `true` if the reader closed the output. A program that writes rarely would not notice otherwise.
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
