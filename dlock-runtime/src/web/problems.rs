//! The answers of an application to each error.

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

/// The time after which to ask again if an operator has to fix something first.
const AFTER_A_MENDING: Duration = Duration::from_secs(30);
/// When to ask again if this process is about to end: another one may have begun by then.
const AFTER_A_RESTART: Duration = Duration::from_secs(5);

/// The answers to clients for each error, by its [code](LockError::code).
///
/// The default is that of the [module](super). [`install`](super::install) makes another one count
/// for the whole process; without that it counts where it is used.
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

/// The overrides for one code.
#[derive(Clone, Debug, Default, PartialEq)]
struct Change {
    status: Option<u16>,
    title: Option<String>,
    detail: Option<String>,
    retry: Retry,
}

/// The advice to clients when to ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Retry {
    #[default]
    Standard,
    After(Duration),
    Untold,
}

impl Problems {
    /// Starts from what is told by default.
    pub fn builder() -> ProblemsBuilder {
        ProblemsBuilder {
            problems: Self::default(),
            fault: None,
        }
    }

    /// Makes the problem that answers `error`.
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

/// The default answer to `error`. No text of the error is part of it.
fn standard(error: &LockError) -> Parts {
    const MISTAKE: (&str, &str) = (
        "Mistake of the server",
        "The server has made a mistake. Asking again will not help.",
    );
    let (status, retry_after, (own_title, detail)) = match error {
        LockError::Busy { .. } => (
            409,
            error.retry_after(),
            (
                "In use",
                "Somebody else is working on this. Try again shortly.",
            ),
        ),
        LockError::Unavailable { .. } => (
            503,
            Some(error.retry_after().unwrap_or(AFTER_A_MENDING)),
            (
                "Temporarily unavailable",
                "The server cannot work on this at the moment. Try again later.",
            ),
        ),
        // A client that repeats it by itself may do twice what was done in part.
        LockError::Lost { .. } => (
            503,
            None,
            (
                "Interrupted",
                "The work on this was interrupted and may be done in part. \
                 See what has become of it before you try again.",
            ),
        ),
        LockError::InvalidKey { .. } => (
            400,
            None,
            (
                "Invalid value",
                "A value in the request is missing, too long, or has characters that it must not have.",
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
        | LockError::NotInstalled { .. } => (500, None, MISTAKE),
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

/// Says what clients are told; see [`install`](super::install) for an example.
///
/// All methods but [`base_uri`](Self::base_uri) are about one [code](LockError::code).
#[derive(Clone, Debug)]
#[must_use = "problems are made by `build`"]
pub struct ProblemsBuilder {
    problems: Problems,
    /// The first mistake, which `build` tells.
    fault: Option<ProblemsError>,
}

impl ProblemsBuilder {
    /// Sets the base of the URIs that describe the types of problems: the member `type` is `uri`
    /// and the code. If not set, it is `about:blank`, and the member `title` the phrase of the
    /// status.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().base_uri("https://shop.example/problems/").build().expect("it can be told");
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

    /// The status of the answer, 400 to 599.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().status("closed", 502).build().expect("it can be told");
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

    /// The member `title`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().base_uri("/problems/").title("closed", "Closing").build().expect("it can be told");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).title(), "Closing");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn title(mut self, code: &str, title: impl Into<String>) -> Self {
        self.change(code, |change| change.title = Some(title.into()));
        self
    }

    /// The member `detail`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problems};
    ///
    /// let problems = Problems::builder().detail("closed", "We are back in a minute.").build().expect("it can be told");
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(problems.problem(&error).detail(), "We are back in a minute.");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn detail(mut self, code: &str, detail: impl Into<String>) -> Self {
        self.change(code, |change| change.detail = Some(detail.into()));
        self
    }

    /// The header `Retry-After`, in whole seconds, rounded up, at least 1; `None` leaves it out.
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

    /// Makes them.
    ///
    /// # Errors
    ///
    /// The first mistake that was made: a code that no [`LockError`] has, a status that is no error,
    /// or a base to which no code can be added.
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

/// The reason why `uri` followed by a code is no URI that clients everywhere understand alike.
fn fault_in_base(uri: &str) -> Option<&'static str> {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    // A relative one means something else at each address.
    let has_scheme = uri.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    if !uri.bytes().all(is_allowed) {
        Some("it holds a character that no URI may have; percent-encode it")
    } else if !has_scheme && !uri.starts_with('/') {
        Some("begin it with a scheme, such as `https://`, or with `/`")
    } else if uri.ends_with(|last: char| last.is_ascii_alphanumeric()) {
        Some("the code is added as it stands; end it with `/` or `#`")
    } else {
        None
    }
}

/// The reason why a problem cannot be configured like this.
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
    /// No code can be added to this base.
    #[error("{uri:?} cannot be the base of problem types: {reason}")]
    InvalidBase {
        /// The given value.
        uri: String,
        /// The reason why it is refused.
        reason: &'static str,
    },
    /// No [`LockError`] has this code.
    #[error("{code:?} is no code of a lock error; the codes are `{}`", LockError::CODES.join("`, `"))]
    UnknownCode {
        /// The given value.
        code: String,
    },
    /// The status is none of an error.
    #[error("the status {status} for {code:?} is no error; use one from 400 to 599")]
    InvalidStatus {
        /// The code it was meant for.
        code: String,
        /// The given value.
        status: u16,
    },
    /// Problems are installed already; this is about the second ones.
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
