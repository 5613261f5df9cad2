//! One answer: what a client is told of an error.

use std::{borrow::Cow, fmt, time::Duration};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{is_error, phrase};
use crate::error::LockError;

/// The members that RFC 9457 defines; each has a setter.
const STANDARD: [&str; 5] = ["type", "title", "status", "detail", "instance"];

/// The `type` of a problem that says no more than its status.
const ABOUT_BLANK: &str = "about:blank";

/// The answer to a client for a [`LockError`](crate::LockError): the problem details of RFC 9457.
///
/// It is a response of axum and of actix-web, and as an error of a function it becomes one. Its
/// JSON is that of its `Serialize`.
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
    /// `None` is `about:blank`.
    pub(super) type_uri: Option<Cow<'static, str>>,
    /// `None` is the phrase of the status under `about:blank`, and else `own_title`.
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

    /// [`LockError::code`](crate::LockError::code) of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The status, 400 to 599.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// The member `type`: what sort of problem it is, `about:blank` if its status says all.
    #[must_use]
    pub fn type_uri(&self) -> &str {
        self.0.type_uri.as_deref().unwrap_or(ABOUT_BLANK)
    }

    /// The member `title`: the sort of problem in some words, which do not depend on the case.
    #[must_use]
    pub fn title(&self) -> &str {
        match &self.0.title {
            Some(title) => title,
            // As the RFC asks of `about:blank`.
            None if self.type_uri() == ABOUT_BLANK => phrase(self.0.status),
            None => self.0.own_title,
        }
    }

    /// The member `detail`: what happened, for people.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// // Nothing of the key.
    /// assert!(!Problem::of(&error).detail().contains("order:42"));
    /// # Ok::<(), LockError>(())
    /// ```
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The member `instance`: which occurrence of the problem this is, if that was set.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.0.instance.as_deref()
    }

    /// When the client should ask again, if that may help.
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

    /// A member that was added.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.members.get(name)
    }

    /// Sets the status, in the answer and in its member `status`.
    ///
    /// # Panics
    ///
    /// With debug assertions, if `status` is not one of 400 to 599. Without them the status stays as
    /// it was: an answer to a failure must not fail, nor look like a success.
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
            "the status {status} is no error; use one from 400 to 599"
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

    /// Sets the member `detail`. Clients read it: a key or [`LockError`]'s text does not belong there.
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

    /// Sets the member `instance`, a URI, such as that of the request.
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

    /// Sets the header `Retry-After`, which has whole seconds: `after` is rounded up, and at least 1 s.
    /// `None` leaves the header out.
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

    /// Adds a member, or replaces one that was added, or `code`.
    ///
    /// # Panics
    ///
    /// With debug assertions, if `name` is one of `type`, `title`, `status`, `detail` and `instance`,
    /// which have methods of their own. Without them such a call changes nothing.
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

    /// The value of the header `Retry-After`.
    pub(super) fn retry_after_seconds(&self) -> Option<u64> {
        let after = self.0.retry_after?;
        let begun = u64::from(after.subsec_nanos() > 0);
        // 0 would ask for a storm.
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

/// The fields that a client may read, and no more.
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
