//! Writes to the standard output.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;

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

/// A JSON document that is a list, or has one as its first field. It is printed while its items come.
///
/// A document whose items could not be read has no end. So it is not taken for a complete one.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// The name of the field, if the document is an object.
    field: Option<&'static str>,
    has_items: bool,
}

impl List {
    pub(crate) fn in_field(field: &'static str) -> Self {
        Self {
            field: Some(field),
            has_items: false,
        }
    }

    /// Prints further items.
    pub(crate) fn add(&mut self, items: &[impl Serialize]) -> Result<(), Failure> {
        let mut shown = String::new();
        for item in items {
            shown += if self.has_items { ",\n" } else { "" };
            if !self.has_items {
                shown += &self.begin();
                shown += "\n";
            }
            self.has_items = true;
            let item = serde_json::to_string_pretty(item).expect("all keys are strings");
            let indent = if self.field.is_some() { "    " } else { "  " };
            shown += indent;
            shown += &item.replace('\n', &format!("\n{indent}"));
        }
        text(&printable_json(&shown))
    }

    /// Ends the document, with further fields if it is an object.
    pub(crate) fn end(self, rest: &[(&str, Value)]) -> Result<(), Failure> {
        let mut shown = match self.has_items {
            true if self.field.is_some() => "\n  ]".to_owned(),
            true => "\n]".to_owned(),
            false => self.begin() + "]",
        };
        for (name, value) in rest {
            let name = Value::from(*name);
            shown = format!("{shown},\n  {name}: {value}");
        }
        shown += if self.field.is_some() { "\n}" } else { "" };
        line(&printable_json(&shown))
    }

    fn begin(&self) -> String {
        match self.field {
            Some(field) => format!("{{\n  {}: [", Value::from(field)),
            None => "[".to_owned(),
        }
    }
}

/// Prints one line. A closed pipe is a failure that ends the program without a message.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    print(&[text.as_bytes(), b"\n"])
}

/// Prints `text` as it is.
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

/// Returns the width of the terminal that the output goes to, if it is one.
pub(crate) fn columns() -> Option<u16> {
    let size = ratatui::crossterm::terminal::size().ok();
    let of_terminal = size.filter(|_| io::stdout().is_terminal());
    // A terminal without a size has none to fit.
    of_terminal.map(|(columns, _)| columns).filter(|it| *it > 0)
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
