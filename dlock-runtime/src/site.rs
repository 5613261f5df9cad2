//! Descriptions of the program's annotated functions, taken from their attributes.

use std::{fmt, time::Duration};

use crate::{
    mode::LockMode,
    options::{Options, Wait},
};

/// One function under `#[distributed_lock]`.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockSite;
///
/// /// A row for each function, for instance of `dlock::lock_sites()`.
/// fn row(site: &LockSite) -> String {
///     let (templates, computed) = (site.templates().join(", "), site.computed().join(", "));
///     let at = format!("{}:{}", site.file(), site.line());
///     format!("{} {templates} {:?} [{computed}] {at}", site.function(), site.ttl())
/// }
/// # let _: fn(&LockSite) -> String = row;
/// ```
#[derive(Debug)]
pub struct LockSite {
    function: &'static str,
    file: &'static str,
    line: u32,
    template: &'static str,
    templates: &'static [&'static str],
    /// For each template, whether it is `shared(..)`. Empty if none is.
    shared: &'static [bool],
    /// The template, or the attribute's `metric`.
    metric: &'static str,
    options: Options,
    computed: &'static [&'static str],
}

impl LockSite {
    /// Creates a site from the values that the attribute knows at compile time. `computed` names the options
    /// that it does not know.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        function: &'static str,
        file: &'static str,
        line: u32,
        template: &'static str,
        templates: &'static [&'static str],
        options: Options,
        computed: &'static [&'static str],
    ) -> Self {
        Self {
            function,
            file,
            line,
            template,
            templates,
            shared: &[],
            metric: template,
            options,
            computed,
        }
    }

    /// Sets the label that metrics show instead of the template.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_metric(mut self, metric: &'static str) -> Self {
        self.metric = metric;
        self
    }

    /// Sets which of the templates are `shared(..)`.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_shared(mut self, shared: &'static [bool]) -> Self {
        self.shared = shared;
        self
    }

    /// Returns the function with its module, such as `shop::billing::settle`. For a method, the type is not
    /// included.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.function
    }

    /// Returns the source file, as it was passed to the compiler.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line of the attribute.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the key template as written, such as `order:<id>`. Several templates are joined with a comma:
    /// `account:<from>, account:<to>`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockSite;
    ///
    /// /// Whether it takes the lock of one order.
    /// fn locks_an_order(site: &LockSite) -> bool {
    ///     site.template().starts_with("order:<")
    /// }
    /// # let _: fn(&LockSite) -> bool = locks_an_order;
    /// ```
    #[must_use]
    pub fn template(&self) -> &'static str {
        self.template
    }

    /// Returns the label `template` of this function's metrics, spans and events: the attribute's `metric`,
    /// otherwise the [template](Self::template).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockSite;
    ///
    /// /// The question to Prometheus for the calls of this function that were refused.
    /// fn refused(site: &LockSite) -> String {
    ///     format!("dlock_refused_total{{template={:?}}}", site.metric())
    /// }
    /// # let _: fn(&LockSite) -> String = refused;
    /// ```
    #[must_use]
    pub fn metric(&self) -> &'static str {
        self.metric
    }

    /// Returns the key templates as written, one by one.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockSite;
    ///
    /// /// Whether the function takes a lock of these.
    /// fn locks_orders(site: &LockSite) -> bool {
    ///     site.templates().iter().any(|template| template.starts_with("order:"))
    /// }
    /// # let _: fn(&LockSite) -> bool = locks_orders;
    /// ```
    #[must_use]
    pub fn templates(&self) -> &'static [&'static str] {
        self.templates
    }

    /// Returns the mode of each key, in the order of the [templates](Self::templates). It is `None` for a number
    /// of permits that is [computed](Self::computed).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockMode, LockSite};
    ///
    /// /// The keys that the function holds together with other calls.
    /// fn shares(site: &LockSite) -> Vec<&str> {
    ///     let keys = site.templates().iter().zip(site.modes());
    ///     let shared = keys.filter(|(_, mode)| *mode == Some(LockMode::Shared));
    ///     shared.map(|(template, _)| *template).collect()
    /// }
    /// # let _: fn(&LockSite) -> Vec<&str> = shares;
    /// ```
    #[must_use]
    pub fn modes(&self) -> Vec<Option<LockMode>> {
        let is_known = !self.computed.contains(&"permits");
        let own = is_known.then(|| self.options.mode.unwrap_or_default());
        let shared = self.shared.iter().copied().chain(std::iter::repeat(false));
        let templates = self.templates.iter().zip(shared);
        templates
            .map(|(_, is_shared)| {
                if is_shared {
                    Some(LockMode::Shared)
                } else {
                    own
                }
            })
            .collect()
    }

    /// Returns the TTL, or `None` if it is the manager's or [computed](Self::computed).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::LockSite;
    ///
    /// /// Whether others wait for longer than a minute after a crash in it.
    /// fn is_long(site: &LockSite) -> bool {
    ///     site.ttl().is_some_and(|ttl| ttl > Duration::from_secs(60))
    /// }
    /// # let _: fn(&LockSite) -> bool = is_long;
    /// ```
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        self.options.ttl
    }

    /// Returns how long a call waits, or `None` if that is the manager's or [computed](Self::computed).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockSite, Wait};
    ///
    /// /// Whether a request may hang in it.
    /// fn may_hang(site: &LockSite) -> bool {
    ///     site.wait() == Some(Wait::Forever)
    /// }
    /// # let _: fn(&LockSite) -> bool = may_hang;
    /// ```
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        self.options.wait
    }

    /// Returns the names of the options that are computed at each call.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockSite;
    ///
    /// /// Whether its TTL is known only when it is called.
    /// fn has_computed_ttl(site: &LockSite) -> bool {
    ///     site.computed().contains(&"ttl")
    /// }
    /// # let _: fn(&LockSite) -> bool = has_computed_ttl;
    /// ```
    #[must_use]
    pub fn computed(&self) -> &'static [&'static str] {
        self.computed
    }

    /// Returns the options that are known at compile time.
    #[doc(hidden)]
    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }
}

/// The origin of a call, for logs and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) site: Option<&'static LockSite>,
    /// The template of the keys, or the label that replaces it.
    pub(crate) template: Option<&'static str>,
    /// The mode of the call.
    pub(crate) mode: LockMode,
}

impl Origin {
    /// Sets the mode to that of a call with these options.
    pub(crate) fn with(self, options: &Options) -> Self {
        let mode = options.mode.unwrap_or_default();
        Self { mode, ..self }
    }
}

impl From<&'static LockSite> for Origin {
    fn from(site: &'static LockSite) -> Self {
        Self {
            site: Some(site),
            template: Some(site.metric),
            mode: site.options.mode.unwrap_or_default(),
        }
    }
}

impl fmt::Display for LockSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.function, self.file, self.line)
    }
}
