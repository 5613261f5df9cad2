//! The answers of this process: those that the application has installed, or the standard ones.

use once_cell::sync::OnceCell;

use super::{
    problem::Problem,
    problems::{Problems, ProblemsError, STANDARD},
};
use crate::error::LockError;

static INSTALLED: OnceCell<Problems> = OnceCell::new();

/// Makes `problems` what clients are told from now on, by all answers of this process.
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
///         .title("busy", "In use")
///         .detail("busy", "Somebody else is changing this order.")
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
/// [`ProblemsError::AlreadyInstalled`] if there are some; the first stay.
pub fn install(problems: Problems) -> Result<&'static Problems, ProblemsError> {
    INSTALLED
        .try_insert(problems)
        .map_err(|_| ProblemsError::AlreadyInstalled)
}

/// The installed problems, or else the default.
fn current() -> &'static Problems {
    INSTALLED.get().unwrap_or(&STANDARD)
}

impl Problem {
    /// Makes the problem of `error`, as [`install`](super::install) has set it, or else as the
    /// [module](super) says.
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
