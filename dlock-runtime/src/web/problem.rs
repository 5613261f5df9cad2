//! The problem details (RFC 9457) of one response.

use std::{borrow::Cow, fmt, time::Duration};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{is_error, phrase};
use crate::error::LockError;

/// The members that RFC 9457 defines; each has a setter.
const STANDARD: [&str; 5] = ["type", "title", "status", "detail", "instance"];

/// The `type` of a problem that means no more than its status.
const ABOUT_BLANK: &str = "about:blank";

/// The response to a client for a [`LockError`](crate::LockError): problem details as RFC 9457 defines them.
///
/// With the features `axum` and `actix-web`, it is a response, and a handler can return it as its error. `Serialize`
/// writes the JSON of the body.
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
    /// `None` means the reason phrase of the status with `about:blank`, and `own_title` with another type.
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

    /// Returns the HTTP status, 400 to 599.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status
    }

    /// Returns the member `type`: a URI that identifies the problem type, or `about:blank` if the status is enough.
    #[must_use]
    pub fn type_uri(&self) -> &str {
        self.0.type_uri.as_deref().unwrap_or(ABOUT_BLANK)
    }

    /// Returns the member `title`: a short summary of the problem type, the same for each occurrence.
    #[must_use]
    pub fn title(&self) -> &str {
        match &self.0.title {
            Some(title) => title,
            // RFC 9457 requires this for `about:blank`.
            None if self.type_uri() == ABOUT_BLANK => phrase(self.0.status),
            None => self.0.own_title,
        }
    }

    /// Returns the member `detail`: a description of this error for users. It does not contain the key.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// // The key is not disclosed.
    /// assert!(!Problem::of(&error).detail().contains("order:42"));
    /// # Ok::<(), LockError>(())
    /// ```
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the member `instance`, which identifies this occurrence of the problem, if it is set.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.0.instance.as_deref()
    }

    /// Returns the time after which the client should retry, or `None` if a retry does not help or is unsafe.
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

    /// Returns a member that was added by [`with_member`](Self::with_member).
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.0.members.get(name)
    }

    /// Sets the HTTP status of the response and the member `status`.
    ///
    /// # Panics
    ///
    /// With debug assertions, if `status` is not one of 400 to 599. Without them, such a call changes nothing: an error
    /// response must neither panic nor look like a success.
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
            "status {status} is not an error status: use one from 400 to 599"
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
    /// assert_eq!(Problem::of(&error).with_title("Maintenance").title(), "Maintenance");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// Sets the member `detail`. Clients read it, so it must not contain a key or the text of a [`LockError`].
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockKey, web::Problem};
    ///
    /// let error = LockError::Closed { key: LockKey::new("order:42")? };
    /// let problem = Problem::of(&error).with_detail("The shop is restarting.");
    /// assert_eq!(problem.detail(), "The shop is restarting.");
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// Sets the member `instance`, a URI, for example the one of the request.
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

    /// Sets the header `Retry-After`. It is sent in whole seconds: `after` rounded up, at least 1 s. `None` omits the
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

    /// Adds a member. Replaces an added member of the same name, or `code`.
    ///
    /// # Panics
    ///
    /// With debug assertions, if `name` is `type`, `title`, `status`, `detail` or `instance`: each of them has its own
    /// method. Without them, such a call changes nothing.
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
            "`{name}` is a standard member of a problem: set it with its own method"
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

/// Writes only fields that a client may read.
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
