//! One annotated function of the program, as its attribute describes it.

use std::fmt;

use crate::options::Options;

/// One annotated function of the program.
#[derive(Debug)]
pub struct Site {
    function: &'static str,
    file: &'static str,
    line: u32,
    pub(crate) template: &'static str,
    options: Options,
}

impl Site {
    /// What the attribute knows while compiling.
    #[must_use]
    pub const fn new(
        function: &'static str,
        file: &'static str,
        line: u32,
        template: &'static str,
        options: Options,
    ) -> Self {
        Self {
            function,
            file,
            line,
            template,
            options,
        }
    }

    /// The options given as literals.
    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.function, self.file, self.line)
    }
}
