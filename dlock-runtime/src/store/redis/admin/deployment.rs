//! The deployment that a configuration describes, read from its URL without a connection.

use crate::{
    error::ConnectError,
    store::redis::{RedisConfig, config::url::UrlLayout},
};

/// How the servers of a [`RedisConfig`] work together, and how a client logs in to them.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{admin::{Deployment, Layout}, store::redis::RedisConfig};
///
/// let url = "redis-sentinel://app:s3cret@one,two,three/mymaster?min_replicas=1";
/// let deployment = Deployment::of(&RedisConfig::new(url))?;
/// assert_eq!(deployment.layout, Layout::Sentinel);
/// assert_eq!(deployment.servers, 3);
/// assert_eq!(deployment.user.as_deref(), Some("app"));
/// assert_eq!(deployment.min_replicas, 1);
/// # Ok::<(), dlock::ConnectError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deployment {
    /// How the servers work together.
    pub layout: Layout,
    /// The number of servers in the URL: Sentinels behind [`Layout::Sentinel`], some of the nodes of
    /// a cluster. A socket counts as one.
    pub servers: usize,
    /// The user in the URL; `default` if the URL has a password without a user. `None` if the URL has no login.
    /// The user then comes from [`RedisConfig::credentials`], if they are set.
    pub user: Option<String>,
    /// The number of replicas that must confirm a lease: the greater of the value in the URL and
    /// [`RedisConfig::min_replicas`].
    pub min_replicas: u32,
}

/// How the servers of a [`Deployment`] work together.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::Layout;
///
/// /// Returns `true` if a replica can replace the server that has the locks.
/// fn fails_over(layout: Layout) -> bool {
///     matches!(layout, Layout::Sentinel | Layout::Cluster)
/// }
/// # let _ = fails_over;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// One server: `redis://`, `redis+unix://`.
    Single,
    /// A master that is named by Sentinels: `redis-sentinel://`.
    Sentinel,
    /// The nodes of a Redis Cluster: `redis-cluster://`.
    Cluster,
    /// Independent servers, of which a majority decides: `redlock://`.
    Quorum,
}

impl Deployment {
    /// Reads the deployment from `config`. It opens no connection.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the URL or an option is invalid, or a certificate file cannot be read.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{admin::{Deployment, Layout}, store::redis::RedisConfig};
    ///
    /// let deployment = Deployment::of(&RedisConfig::new("redis://localhost"))?;
    /// assert_eq!((deployment.layout, deployment.servers), (Layout::Single, 1));
    /// assert_eq!(deployment.user, None);
    ///
    /// assert!(Deployment::of(&RedisConfig::new("http://localhost")).is_err());
    /// # Ok::<(), dlock::ConnectError>(())
    /// ```
    pub fn of(config: &RedisConfig) -> Result<Self, ConnectError> {
        let location = config.location()?;
        Ok(Self {
            layout: match location.layout() {
                UrlLayout::Single => Layout::Single,
                UrlLayout::Sentinel(_) => Layout::Sentinel,
                UrlLayout::Cluster => Layout::Cluster,
                UrlLayout::Independent => Layout::Quorum,
            },
            servers: location.addresses().len(),
            user: location.user().map(str::to_owned),
            min_replicas: location.min_replicas().max(config.min_replicas),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Deployment {
        Deployment::of(&RedisConfig::new(url)).expect("the URL is valid")
    }

    #[test]
    fn the_scheme_names_the_layout() {
        for (url, layout) in [
            ("redis://h", Layout::Single),
            ("VALKEY://h", Layout::Single),
            #[cfg(unix)]
            ("redis+unix:///s", Layout::Single),
            ("valkey-sentinel://h/s", Layout::Sentinel),
            ("redis-cluster://h", Layout::Cluster),
            ("REDLOCK://a,b,c", Layout::Quorum),
        ] {
            assert_eq!(of(url).layout, layout, "{url}");
        }
    }

    #[test]
    fn the_user_is_decoded_and_defaults_to_that_of_the_server() {
        for (url, user) in [
            ("redis://h", None),
            ("redis://app:s3cret@h/0", Some("app")),
            ("redis://b%C3%B6b:s3cret@h", Some("b\u{f6}b")),
            ("redis://:s3cret@h/0", Some("default")),
            ("redlock://app:s3cret@a,b,c", Some("app")),
            #[cfg(unix)]
            ("redis+unix:///s?db=1&user=app&pass=s3cret", Some("app")),
        ] {
            assert_eq!(of(url).user.as_deref(), user, "{url}");
        }
    }

    #[test]
    fn servers_and_replicas_are_counted() {
        let url = "redis-sentinel://:pw@a:1,b,c/service/0?protocol=resp2&min_replicas=2";
        let sentinels = of(url);
        assert_eq!((sentinels.servers, sentinels.min_replicas), (3, 2));
        for (set, counts) in [(1, 2), (3, 3)] {
            let config = RedisConfig::new(url).min_replicas(set);
            let deployment = Deployment::of(&config).expect("the URL is valid");
            assert_eq!(deployment.min_replicas, counts);
        }
        assert_eq!(of("redis://h").min_replicas, 0);
    }
}
