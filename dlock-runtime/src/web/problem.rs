//! One response: the problem details of an error.

use std::{borrow::Cow, fmt, time::Duration};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{is_error, phrase};
use crate::error::LockError;

/// The members that RFC 9457 defines; each has a setter.
const STANDARD: [&str; 5] = ["type", "title", "status", "detail", "instance"];

/// The `type` of a problem that its status describes completely.
const ABOUT_BLANK: &str = "about:blank";

/// The problem details (RFC 9457) of a [`LockError`](crate::LockError).
///
/// A problem is a response of axum and of actix-web, also as the error of a handler. `Serialize` writes its JSON.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, LockKey, web::Problem};
///
/// let error = LockError::Closed { key: LockKey::new("order:42")? };
/// let problem = Problem::of(&error).with_member("support", "https://shop.example/help");
/// assert_eq!((problem.status(), problem.code()), (503, "closed"));
/// # Ok::<(), LockError>(())
/// ```
#[derive(Clone, PartialEq)]
#[must_use = "a problem does nothing unless it is sent"]
pub struct Problem(Box<Parts>);

/// Boxed, so that a `Result` with a problem stays small.
#[derive(Clone, PartialEq)]
pub(super) struct Parts {
    pub(super) code: &'static str,
    /// `None` means `about:blank`.
    pub(super) type_uri: Option<Cow<'static, str>>,
    /// `None` means the reason phrase of the status under `about:blank`, and `own_title` otherwise.
    pub(super) title: Option<Cow<'static, str>>,
    pub(super) own_title: &'static str,
    pub(super) status: u16,
    pub(super) detail: Cow<'static, str>,
    pub(super) instance: Option<Cow<'static, str>>,
    pub(super) retry_after: Option<Duration>,
    pub(super) members: Map<String, Value>,
}

impl Problem {
    pub(super) fn from_parts(parts: Parts) -> Self {
        Self(Box::new(parts))
    }

    /// Returns the [code](crate::LockError::code) of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// Returns the status, 400 to 599.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// Returns the member `type`: the URI of the kind of problem, or `about:blank` if the status describes it.
    #[must_use]
    pub fn type_uri(&self) -> &str {
        self.0.type_uri.as_deref().unwrap_or(ABOUT_BLANK)
    }

    /// Returns the member `title`: a summary of the kind of problem, the same for each occurrence.
    #[must_use]
    pub fn title(&self) -> &str {
        match &self.0.title {
            Some(title) => title,
            // The RFC requires it with `about:blank`.
            None if self.type_uri() == ABOUT_BLANK => phrase(self.0.status),
            None => self.0.own_title,
        }
    }

    /// Returns the member `detail`: an explanation for people.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// // The key stays private.
    /// assert!(!Problem::of(&error).detail().contains("order:42"));
    /// # Ok::<(), LockError>(())
    /// ```
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the member `instance`: the URI of this occurrence, if it was set.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.0.instance.as_deref()
    }

    /// Returns the time after which the client should retry, or `None` if a retry cannot help.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert!(Problem::of(&error).retry_after().is_some());
    /// # Ok::<(), LockError>(())
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns a member that was added.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.members.get(name)
    }

    /// Sets the status of the response and the member `status`.
    ///
    /// # Panics
    ///
    /// Panics with debug assertions if `status` is not between 400 and 599. Without them, the status stays as it was,
    /// because an error response must neither fail nor look like a success.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(Problem::of(&error).with_status(502).status(), 502);
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_status(mut self, status: u16) -> Self {
        debug_assert!(
            is_error(status),
            "the status {status} is not an error; use one from 400 to 599"
        );
        if is_error(status) {
            self.0.status = status;
        }
        self
    }

    /// Sets the member `type`, a URI.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_type("https://shop.example/problems/closed");
    /// assert_eq!(problem.type_uri(), "https://shop.example/problems/closed");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_type(mut self, uri: impl Into<Cow<'static, str>>) -> Self {
        self.0.type_uri = Some(uri.into());
        self
    }

    /// Sets the member `title`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// assert_eq!(Problem::of(&error).with_title("Closing").title(), "Closing");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// Sets the member `detail`. Clients read it: it should contain neither a key nor the text of a [`LockError`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_detail("We are back in a minute.");
    /// assert_eq!(problem.detail(), "We are back in a minute.");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// Sets the member `instance`, a URI such as that of the request.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_instance("/orders/42");
    /// assert_eq!(problem.instance(), Some("/orders/42"));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_instance(mut self, uri: impl Into<Cow<'static, str>>) -> Self {
        self.0.instance = Some(uri.into());
        self
    }

    /// Sets the header `Retry-After`. It has whole seconds: `after` is rounded up, to at least 1 s. `None` omits the
    /// header.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_retry_after(None);
    /// assert_eq!(problem.retry_after(), None);
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_retry_after(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.0.retry_after = after.into();
        self
    }

    /// Adds a member. It replaces an added member of the same name, or `code`.
    ///
    /// # Panics
    ///
    /// Panics with debug assertions if `name` is `type`, `title`, `status`, `detail` or `instance`, which have methods
    /// of their own. Without them, such a call has no effect.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_member("request", 4711);
    /// assert_eq!(problem.member("request"), Some(&4711.into()));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_member(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let name = name.into();
        let is_standard = STANDARD.contains(&name.as_str());
        debug_assert!(
            !is_standard,
            "the member `{name}` of a problem has a method of its own"
        );
        if !is_standard {
            self.0.members.insert(name, value.into());
        }
        self
    }

    /// Returns the value of the header `Retry-After`.
    pub(super) fn retry_after_seconds(&self) -> Option<u64> {
        let after = self.0.retry_after?;
        let begun = u64::from(after.subsec_nanos() > 0);
        // With 0, all clients would retry at once.
        Some(after.as_secs().saturating_add(begun).max(1))
    }

    pub(super) fn body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts, numbers and JSON values can be written as JSON")
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.type_uri())?;
        map.serialize_entry("title", self.title())?;
        map.serialize_entry("status", &self.status())?;
        map.serialize_entry("detail", self.detail())?;
        if let Some(instance) = self.instance() {
            map.serialize_entry("instance", instance)?;
        }
        if self.member("code").is_none() {
            map.serialize_entry("code", self.code())?;
        }
        for (name, value) in &self.0.members {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        Self::of(&error)
    }
}

impl From<&LockError> for Problem {
    fn from(error: &LockError) -> Self {
        Self::of(error)
    }
}

/// Shows only the fields that clients may read.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status(), self.title(), self.detail())
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Problem({self})")
    }
}

impl std::error::Error for Problem {}
