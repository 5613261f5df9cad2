//! The problem details that an application sends for each error.

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

/// The time after which to retry if an operator has to fix something first.
const AFTER_A_FIX: Duration = Duration::from_secs(30);
/// The time after which to retry if this process is shutting down: another process may have started by then.
const AFTER_A_RESTART: Duration = Duration::from_secs(5);

/// The problem details for each error, by its [code](LockError::code).
///
/// The [module](super) documents the defaults. [`install`](super::install) applies changed ones to the whole process;
/// without it, they apply only where [`problem`](Self::problem) is called.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, LockKey, web::Problems};
///
/// let problems = Problems::builder().status("closed", 502).build().expect("a valid status");
/// let error = LockError::Closed { key: LockKey::new("order:42")? };
/// assert_eq!(problems.problem(&error).status(), 502);
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problems {
    base: Option<String>,
    changes: BTreeMap<&'static str, Change>,
}

/// The overrides for one code.
#[derive(Clone, Debug, Default, PartialEq)]
struct Change {
    status: Option<u16>,
    title: Option<String>,
    detail: Option<String>,
    retry: Retry,
}

/// The time after which clients should retry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Retry {
    #[default]
    Standard,
    After(Duration),
    Omitted,
}

impl Problems {
    /// Returns a builder that starts from the defaults.
    pub fn builder() -> ProblemsBuilder {
        ProblemsBuilder {
            problems: Self::default(),
            fault: None,
        }
    }

    /// Creates the problem for `error`.
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
                Retry::Omitted => None,
            };
        }
        Problem::from_parts(parts)
    }
}

/// The default problem for `error`. It contains nothing from the error's text.
fn standard(error: &LockError) -> Parts {
    const INTERNAL: (&str, &str) = (
        "Internal server error",
        "An internal server error occurred. Retrying the request will not help.",
    );
    let (status, retry_after, (own_title, detail)) = match error {
        LockError::Busy { .. } => (
            409,
            error.retry_after(),
            (
                "Locked by another operation",
                "Another operation on this resource is in progress. Try again shortly.",
            ),
        ),
        LockError::Unavailable { .. } => (
            503,
            Some(error.retry_after().unwrap_or(AFTER_A_FIX)),
            (
                "Service unavailable",
                "The service is temporarily unavailable. Try again later.",
            ),
        ),
        // A client that retries automatically may repeat a part that is already done.
        LockError::Lost { .. } => (
            503,
            None,
            (
                "Operation interrupted",
                "The operation was interrupted and may be partly complete. \
                 Check its result before you try again.",
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

/// Configures [`Problems`]; see [`install`](super::install) for an example.
///
/// All methods except [`base_uri`](Self::base_uri) apply to one [code](LockError::code).
#[derive(Clone, Debug)]
#[must_use = "`build` creates the problems"]
pub struct ProblemsBuilder {
    problems: Problems,
    /// The first invalid setting, which `build` returns.
    fault: Option<ProblemsError>,
}

impl ProblemsBuilder {
    /// Sets the base URI of the problem types: the member `type` is `uri` followed by the code.
    ///
    /// Without it, `type` is `about:blank` and `title` is the reason phrase of the status.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().base_uri("https://shop.example/problems/").build().expect("a valid base");
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

    /// Sets the HTTP status, 400 to 599.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().status("closed", 502).build().expect("a valid status");
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
    /// let problems = Problems::builder().title("closed", "Maintenance").build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).title(), "Maintenance");
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
    /// let problems = Problems::builder().detail("closed", "The shop is restarting.").build().expect("a known code");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).detail(), "The shop is restarting.");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn detail(mut self, code: &str, detail: impl Into<String>) -> Self {
        self.change(code, |change| change.detail = Some(detail.into()));
        self
    }

    /// Sets the header `Retry-After`. It is sent in whole seconds: `after` rounded up, at least 1 s. `None` omits the
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
        let retry = after.into().map_or(Retry::Omitted, Retry::After);
        self.change(code, |change| change.retry = retry);
        self
    }

    /// Builds the problems.
    ///
    /// # Errors
    ///
    /// The first invalid setting: a code that no [`LockError`] has, a status that is not an error status, or a base URI
    /// to which no code can be appended.
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

/// Returns the reason why `uri` followed by a code is not a URI with the same meaning for all clients.
fn fault_in_base(uri: &str) -> Option<&'static str> {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    // A relative path has another meaning for each request URL.
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    if !uri.bytes().all(is_allowed) {
        Some("it contains a character that is not valid in a URI; percent-encode it")
    } else if !has_scheme && !uri.starts_with('/') {
        Some("begin it with a scheme, such as `https://`, or with `/`")
    } else if uri.ends_with(|last: char| last.is_ascii_alphanumeric()) {
        Some("the code is appended to it without a separator; end it with `/` or `#`")
    } else {
        None
    }
}

/// The reason why [`Problems`] could not be built or installed.
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
    /// No code can be appended to this base URI.
    #[error("invalid base URI {uri:?} for problem types: {reason}")]
    InvalidBase {
        /// The given value.
        uri: String,
        /// The reason why it is invalid.
        reason: &'static str,
    },
    /// No [`LockError`] has this code.
    #[error("unknown error code {code:?}: use one of `{}`", LockError::CODES.join("`, `"))]
    UnknownCode {
        /// The given value.
        code: String,
    },
    /// The status is not an error status.
    #[error("invalid status {status} for {code:?}: use one from 400 to 599")]
    InvalidStatus {
        /// The code for which it was set.
        code: String,
        /// The given value.
        status: u16,
    },
    /// Problems are already installed. The first ones stay installed.
    #[error("problems are already installed in this process: install them once, at start-up")]
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
