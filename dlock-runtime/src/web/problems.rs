//! The responses of an application to each error.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde_json::Map;

use super::{
    is_error,
    problem::{Parts, Problem},
};
use crate::error::{LockError, debug_with_text};

pub(super) static STANDARD: Problems = Problems {
    base: None,
    changes: BTreeMap::new(),
};

/// The time before a retry if an operator must fix something first.
const AFTER_A_REPAIR: Duration = Duration::from_secs(30);
/// The time before a retry if this process shuts down: its replacement may run by then.
const AFTER_A_RESTART: Duration = Duration::from_secs(5);

/// The problem for each error, by its [code](LockError::code).
///
/// The [module](super) lists the defaults. [`install`](super::install) sets problems for the whole process;
/// otherwise call [`problem`](Self::problem).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, LockKey, web::Problems};
///
/// let problems = Problems::builder().status("closed", 502).build().expect("it is a status");
/// let error = LockError::Closed { key: LockKey::new("order:42")? };
/// assert_eq!(problems.problem(&error).status(), 502);
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems {
    base: Option<String>,
    changes: BTreeMap<&'static str, Change>,
}

/// The overrides of one code.
#[derive(Clone, Debug, Default, PartialEq)]
struct Change {
    status: Option<u16>,
    title: Option<String>,
    detail: Option<String>,
    retry: Retry,
}

/// The header `Retry-After`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Retry {
    #[default]
    Standard,
    After(Duration),
    Untold,
}

impl Problems {
    /// Creates a builder with the defaults.
    pub fn builder() -> ProblemsBuilder {
        ProblemsBuilder {
            problems: Self::default(),
            fault: None,
        }
    }

    /// Returns the problem for `error`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let error = LockError::NotInstalled { key: LockKey::new("order:42")? };
    /// assert_eq!(Problems::default().problem(&error).status(), 500);
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn problem(&self, error: &LockError) -> Problem {
        let mut parts = standard(error);
        let base = self.base.as_ref();
        parts.type_uri = base.map(|base| Cow::Owned(format!("{base}{}", parts.code)));
        if let Some(change) = self.changes.get(parts.code).cloned() {
            parts.status = change.status.unwrap_or(parts.status);
            parts.title = change.title.map(Cow::Owned);
            parts.detail = change.detail.map_or(parts.detail, Cow::Owned);
            parts.retry_after = match change.retry {
                Retry::Standard => parts.retry_after,
                Retry::After(after) => Some(after),
                Retry::Untold => None,
            };
        }
        Problem::from_parts(parts)
    }
}

/// Returns the default problem for `error`. It contains no text of the error.
fn standard(error: &LockError) -> Parts {
    const INTERNAL: (&str, &str) = (
        "Internal server error",
        "The server is misconfigured. A retry will not help.",
    );
    let (status, retry_after, (own_title, detail)) = match error {
        LockError::Busy { .. } => (
            409,
            error.retry_after(),
            (
                "In use",
                "Another request is working on this. Try again shortly.",
            ),
        ),
        LockError::Unavailable { .. } => (
            503,
            Some(error.retry_after().unwrap_or(AFTER_A_REPAIR)),
            (
                "Temporarily unavailable",
                "The server cannot process this request at the moment. Try again later.",
            ),
        ),
        // A client that retries automatically could repeat the part that was done.
        LockError::Lost { .. } => (
            503,
            None,
            (
                "Interrupted",
                "The request was interrupted and may be partly done. Check its result before you try again.",
            ),
        ),
        LockError::InvalidKey { .. } => (
            400,
            None,
            (
                "Invalid value",
                "A value in the request is missing, too long, or contains invalid characters.",
            ),
        ),
        LockError::Closed { .. } => (
            503,
            Some(AFTER_A_RESTART),
            (
                "Shutting down",
                "The server is shutting down. Try again shortly.",
            ),
        ),
        LockError::WouldDeadlock { .. }
        | LockError::WouldBlock { .. }
        | LockError::InvalidOption { .. }
        | LockError::NotInstalled { .. } => (500, None, INTERNAL),
    };
    Parts {
        code: error.code(),
        type_uri: None,
        title: None,
        own_title,
        status,
        detail: Cow::Borrowed(detail),
        instance: None,
        retry_after,
        members: Map::new(),
    }
}

/// A builder of [`Problems`]; see [`install`](super::install) for an example.
///
/// Every method except [`base_uri`](Self::base_uri) applies to one [code](LockError::code).
#[derive(Clone, Debug)]
#[must_use = "`build` creates the problems"]
pub struct ProblemsBuilder {
    problems: Problems,
    /// The first invalid value, which `build` returns.
    fault: Option<ProblemsError>,
}

impl ProblemsBuilder {
    /// Sets the base of the problem types: the member `type` is `uri` followed by the code.
    ///
    /// Without a base, `type` is `about:blank`, and the member `title` is the reason phrase of the status.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().base_uri("https://shop.example/problems/").build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).type_uri(), "https://shop.example/problems/closed");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn base_uri(mut self, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        match fault_in_base(&uri) {
            Some(reason) => self.refuse(ProblemsError::InvalidBase { uri, reason }),
            None => self.problems.base = Some(uri),
        }
        self
    }

    /// Sets the status of the response, 400 to 599.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().status("closed", 502).build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).status(), 502);
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn status(mut self, code: &str, status: u16) -> Self {
        if is_error(status) {
            self.change(code, |change| change.status = Some(status));
        } else {
            let code = code.to_owned();
            self.refuse(ProblemsError::InvalidStatus { code, status });
        }
        self
    }

    /// Sets the member `title`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().base_uri("/problems/").title("closed", "Closing").build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).title(), "Closing");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn title(mut self, code: &str, title: impl Into<String>) -> Self {
        self.change(code, |change| change.title = Some(title.into()));
        self
    }

    /// Sets the member `detail`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().detail("closed", "We are back in a minute.").build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).detail(), "We are back in a minute.");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn detail(mut self, code: &str, detail: impl Into<String>) -> Self {
        self.change(code, |change| change.detail = Some(detail.into()));
        self
    }

    /// Sets the header `Retry-After`. It has whole seconds: the time is rounded up, to at least 1 s. `None` omits the
    /// header.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let minute = Duration::from_secs(60);
    /// let problems = Problems::builder().retry_after("closed", minute).build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).retry_after(), Some(minute));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn retry_after(mut self, code: &str, after: impl Into<Option<Duration>>) -> Self {
        let retry = after.into().map_or(Retry::Untold, Retry::After);
        self.change(code, |change| change.retry = retry);
        self
    }

    /// Creates the problems.
    ///
    /// # Errors
    ///
    /// Returns an error for the first invalid value: an unknown code, a status outside 400 to 599, or an unusable
    /// base.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::web::{Problems, ProblemsError};
    ///
    /// let misspelt = Problems::builder().status("bussy", 423).build();
    /// assert!(matches!(misspelt, Err(ProblemsError::UnknownCode { code }) if code == "bussy"));
    /// ```
    pub fn build(self) -> Result<Problems, ProblemsError> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.problems),
        }
    }

    fn change(&mut self, code: &str, change: impl FnOnce(&mut Change)) {
        match LockError::CODES.iter().find(|known| **known == code) {
            Some(code) => change(self.problems.changes.entry(code).or_default()),
            None => self.refuse(ProblemsError::UnknownCode {
                code: code.to_owned(),
            }),
        }
    }

    fn refuse(&mut self, fault: ProblemsError) {
        self.fault.get_or_insert(fault);
    }
}

/// Returns the reason why `uri` is not a base that every client resolves to the same URIs.
fn fault_in_base(uri: &str) -> Option<&'static str> {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    // A relative URI has another meaning at each address.
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    if !uri.bytes().all(is_allowed) {
        Some("it contains a character that is invalid in a URI; percent-encode it")
    } else if !has_scheme && !uri.starts_with('/') {
        Some("it must begin with a scheme, such as `https://`, or with `/`")
    } else if uri.ends_with(|last: char| last.is_ascii_alphanumeric()) {
        Some("the code is appended to it; end it with `/` or `#`")
    } else {
        None
    }
}

/// An invalid value for [`Problems`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::web::{Problems, ProblemsError};
///
/// let refused = Problems::builder().status("busy", 200).build();
/// assert!(matches!(refused, Err(ProblemsError::InvalidStatus { status: 200, .. })));
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemsError {
    /// The base is unusable.
    #[error("{uri:?} cannot be the base of problem types: {reason}")]
    InvalidBase {
        /// The given value.
        uri: String,
        /// The reason why it is refused.
        reason: &'static str,
    },
    /// The code is not one of [`LockError`].
    #[error("{code:?} is not a code of a lock error; the codes are `{}`", LockError::CODES.join("`, `"))]
    UnknownCode {
        /// The given value.
        code: String,
    },
    /// The status is not an error.
    #[error("the status {status} for {code:?} is not an error; use one from 400 to 599")]
    InvalidStatus {
        /// The code for which it was set.
        code: String,
        /// The given value.
        status: u16,
    },
    /// Problems are already installed.
    #[error("problems are already installed in this process; install them once, at start-up")]
    AlreadyInstalled,
}

debug_with_text! {
    ProblemsError: |error| match error {
        ProblemsError::InvalidBase { .. } => "InvalidBase",
        ProblemsError::UnknownCode { .. } => "UnknownCode",
        ProblemsError::InvalidStatus { .. } => "InvalidStatus",
        ProblemsError::AlreadyInstalled => "AlreadyInstalled",
    },
}
