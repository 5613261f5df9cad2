//! The text of one mistake.
//!
//! A file of its own, without tokens: what reads text is compiled for other programs as well, and needs nothing else.

/// The text of one mistake. Its place is added later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The mistake: lower case, names in backticks, no full stop.
    what: String,
    /// The user's source with the fault underlined, if the span is wider than the fault.
    sketch: Option<String>,
    /// `help: ` and `note: ` lines.
    lines: Vec<String>,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            sketch: None,
            lines: Vec::new(),
        }
    }

    pub(crate) fn help(mut self, help: impl AsRef<str>) -> Self {
        self.lines.push(format!("help: {}", help.as_ref()));
        self
    }

    pub(crate) fn note(mut self, note: impl AsRef<str>) -> Self {
        self.lines.push(format!("note: {}", note.as_ref()));
        self
    }

    pub(crate) fn sketch(mut self, sketch: Option<String>) -> Self {
        self.sketch = sketch;
        self
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if let Some(sketch) = &self.sketch {
            f.write_str("\n")?;
            for line in sketch.lines() {
                write!(f, "\n    {line}")?;
            }
            if !self.lines.is_empty() {
                f.write_str("\n")?;
            }
        }
        for line in &self.lines {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}
