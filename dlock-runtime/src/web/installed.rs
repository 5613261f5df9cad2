//! The problem details of this process: those that the application has installed, or the defaults.

use once_cell::sync::OnceCell;

use super::{
    problem::Problem,
    problems::{Problems, ProblemsError, STANDARD},
};
use crate::error::LockError;

static INSTALLED: OnceCell<Problems> = OnceCell::new();

/// Installs `problems` for all further responses of this process.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::web::{self, Problems, ProblemsError};
///
/// fn start() -> Result<(), ProblemsError> {
///     let problems = Problems::builder()
///         .base_uri("https://shop.example/problems/")
///         .status("busy", 423)
///         .title("busy", "Order in use")
///         .detail("busy", "Another request is changing this order.")
///         .retry_after("busy", Duration::from_secs(3))
///         .build()?;
///     web::install(problems)?;
///     Ok(())
/// }
/// # start().unwrap();
/// ```
///
/// # Errors
///
/// [`ProblemsError::AlreadyInstalled`] if problems are already installed. The first ones stay installed.
pub fn install(problems: Problems) -> Result<&'static Problems, ProblemsError> {
    INSTALLED
        .try_insert(problems)
        .map_err(|_| ProblemsError::AlreadyInstalled)
}

/// Returns the installed problems, or the defaults.
fn current() -> &'static Problems {
    INSTALLED.get().unwrap_or(&STANDARD)
}

impl Problem {
    /// Creates the problem for `error`: as set by [`install`](super::install), or else the default that the
    /// [module](super) documents.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error);
    /// assert_eq!((problem.status(), problem.title()), (503, "Service Unavailable"));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn of(error: &LockError) -> Self {
        current().problem(error)
    }
}
