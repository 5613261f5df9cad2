//! The name and the clock of a store, from the reports of its servers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::moment;
use crate::{
    admin::ServerReport,
    clock::{Clock as _, Moment, SystemClock},
};

/// The server or servers of the locks. The command `dlock` uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Server {
    /// The address without a login, or the number of servers.
    name: Option<String>,
    product: Option<&'static str>,
    /// `None` if the user may not read it.
    version: Option<String>,
    namespace: Option<String>,
    /// A reading of the server's clock, in milliseconds since 1970, and its moment: the times of leases are by that clock.
    /// It goes on as the clocks of this machine that are never set.
    #[serde(skip)]
    clock: Option<(u64, Moment)>,
}

/// The fields of reports that contain a version, each with its product.
const VERSIONS: [(&str, &str); 5] = [
    ("valkey_version", "Valkey"),
    ("etcd_version", "etcd"),
    ("zookeeper_version", "ZooKeeper"),
    // Behind the others, because Valkey has it too.
    ("redis_version", "Redis"),
    ("server_version", "PostgreSQL"),
];

impl Server {
    /// Returns a server about which nothing is known yet.
    #[must_use]
    pub fn unknown(namespace: Option<String>) -> Self {
        Self {
            namespace,
            ..Self::default()
        }
    }

    /// Returns the same server after these reports. The values that they leave out stay as they were.
    #[must_use]
    pub fn after(&self, reports: &[ServerReport]) -> Self {
        let name = match reports {
            [] => self.name.clone(),
            [one] => Some(without_scheme(&one.server).to_owned()),
            _ => Some(format!("{} servers", reports.len())),
        };
        let told = reports.iter().find_map(|report| {
            VERSIONS.iter().find_map(|(field, product)| {
                let version = report.info.get(*field)?;
                Some((*product, version.clone()))
            })
        });
        let (product, version) = match told {
            Some((product, version)) => (Some(product), Some(version)),
            None => (self.product, self.version.clone()),
        };
        let clock = reports.iter().find_map(|report| report.clock);
        let clock = clock.map(|clock| (ahead(clock.ahead_us), SystemClock.now()));
        Self {
            name,
            product,
            version,
            namespace: self.namespace.clone(),
            clock: clock.or(self.clock),
        }
    }

    /// Returns the address without a scheme, or the number of servers; `None` if nothing was reported yet.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns product and version; `None` if they are unknown.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        Some(format!("{} {}", self.product?, self.version.as_ref()?))
    }

    /// Returns the time on the server's clock.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let since = Duration::from_millis(self.now_ms());
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }

    /// Returns the time on the server's clock, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.at_ms(SystemClock.now())
    }

    /// Returns the time on the server's clock at a moment of this machine.
    pub(super) fn at_ms(&self, now: Moment) -> u64 {
        match self.clock {
            Some((read_ms, at)) => read_ms.saturating_add(moment::milliseconds(at.elapsed(now))),
            None => moment::of(SystemTime::now()),
        }
    }

    /// Returns `true` if no clock of the store was read: there is none, or the user may not read it.
    pub(super) fn hides_its_clock(&self) -> bool {
        self.name.is_some() && self.clock.is_none()
    }

    /// Returns `true` if the user may not read the version.
    pub(super) fn hides_its_version(&self) -> bool {
        self.name.is_some() && self.version.is_none()
    }
}

/// Returns the time on a clock that is ahead of the local one.
fn ahead(by_us: i64) -> u64 {
    let by = Duration::from_micros(by_us.unsigned_abs());
    let now = SystemTime::now();
    let shifted = if by_us < 0 {
        now.checked_sub(by)
    } else {
        now.checked_add(by)
    };
    moment::of(shifted.unwrap_or(now))
}

fn without_scheme(server: &str) -> &str {
    server.split_once("://").map_or(server, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::ClockReading;

    fn report(server: &str, told: &[(&str, &str)]) -> ServerReport {
        let mut report = ServerReport::new(server);
        let told = told.iter();
        report.info = told.map(|(k, v)| ((*k).into(), (*v).into())).collect();
        report
    }

    #[test]
    fn the_product_is_told_by_its_version() {
        for (told, product) in [
            (
                &[("redis_version", "7.2.4"), ("valkey_version", "8.0")][..],
                Some("Valkey"),
            ),
            (&[("redis_version", "7.2.4")], Some("Redis")),
            (
                &[("server_version", "15"), ("product", "PostgreSQL")],
                Some("PostgreSQL"),
            ),
            (&[], None),
        ] {
            let server = Server::unknown(None).after(&[report("redis://h:1", told)]);
            assert_eq!(server.product, product);
            assert_eq!(server.name(), Some("h:1"));
            let version = server.version();
            let begin = version.as_deref().and_then(|it| it.split_once(' '));
            assert_eq!(begin.map(|it| it.0), product);
            assert_eq!(server.hides_its_version(), product.is_none());
            assert!(server.hides_its_clock());
        }
    }

    #[test]
    fn what_reports_do_not_tell_stays() {
        let mut first = report("h", &[("redis_version", "7")]);
        first.clock = Some(ClockReading::new(3_600_000_000, Duration::ZERO));
        let known = Server::unknown(Some("shop".to_owned())).after(&[first]);
        let later = known.after(&[report("h", &[]), report("i", &[])]);
        assert_eq!(later.version.as_deref(), Some("7"));
        assert!(!later.hides_its_clock() && !Server::unknown(None).hides_its_clock());
        assert_eq!(later.name.as_deref(), Some("2 servers"));
        assert_eq!(later.namespace.as_deref(), Some("shop"));
        let ahead = later.now_ms() - moment::of(SystemTime::now());
        assert!((3_590_000..=3_601_000).contains(&ahead), "{ahead}");
        assert_eq!(known.after(&[]), known);
    }

    #[test]
    fn the_clock_of_the_server_does_not_follow_the_time_of_day() {
        let mut told = report("h", &[]);
        told.clock = Some(ClockReading::new(3_600_000_000, Duration::ZERO));
        let server = Server::unknown(None).after(&[told]);
        let (read_ms, at) = server.clock.expect("it was read");
        // The machine was suspended, and the time of day is another one.
        let awake = Moment {
            boot: at.boot + Duration::from_secs(7200),
            ..at
        };
        assert_eq!(server.at_ms(awake), read_ms + 7_200_000);
        assert_eq!(server.at_ms(at), read_ms);
    }
}
