//! The name and the clock of a store, from the reports of its servers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_admin::ServerReport;
use dlock_runtime::clock::{Clock as _, Moment, SystemClock};
use serde::Serialize;

use super::moment;

/// The server or servers of the locks. The command `dlock` uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Server {
    /// The address without a login, or the number of servers.
    name: Option<String>,
    product: Option<String>,
    /// `None` if the user may not read it.
    version: Option<String>,
    namespace: Option<String>,
    /// A reading of the server's clock, in milliseconds since 1970, and its moment: the times of leases are by that clock.
    /// It goes on as the clocks of this machine that are never set.
    #[serde(skip)]
    clock: Option<(u64, Moment)>,
}

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
        let mut known = reports.iter();
        let known = known.find(|report| report.product.is_some() && report.version.is_some());
        let (product, version) = match known {
            Some(report) => (&report.product, &report.version),
            None => (&self.product, &self.version),
        };
        let clock = reports.iter().find_map(|report| report.clock);
        let clock = clock.map(|clock| (ahead(clock.ahead_us), SystemClock.now()));
        Self {
            name,
            product: product.clone(),
            version: version.clone(),
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
        Some(format!(
            "{} {}",
            self.product.as_ref()?,
            self.version.as_ref()?
        ))
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
            None => moment::since_1970(SystemTime::now()),
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
    moment::since_1970(shifted.unwrap_or(now))
}

fn without_scheme(server: &str) -> &str {
    server.split_once("://").map_or(server, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use dlock_admin::ClockReading;

    use super::*;

    fn report(server: &str, version: Option<&str>) -> ServerReport {
        let mut report = ServerReport::new(server);
        report.product = Some("Redis".to_owned());
        report.version = version.map(str::to_owned);
        report
    }

    #[test]
    fn a_product_is_named_with_its_version_only() {
        for (version, named) in [(Some("7.2.4"), Some("Redis 7.2.4")), (None, None)] {
            let server = Server::unknown(None).after(&[report("redis://h:1", version)]);
            assert_eq!(server.name(), Some("h:1"));
            assert_eq!(server.version().as_deref(), named);
            assert_eq!(server.product.is_some(), named.is_some());
            assert_eq!(server.hides_its_version(), named.is_none());
            assert!(server.hides_its_clock());
        }
    }

    #[test]
    fn what_reports_do_not_tell_stays() {
        let mut first = report("h", Some("7"));
        first.clock = Some(ClockReading::new(3_600_000_000, Duration::ZERO));
        let known = Server::unknown(Some("shop".to_owned())).after(&[first]);
        let later = known.after(&[report("h", None), report("i", None)]);
        assert_eq!(later.version.as_deref(), Some("7"));
        assert!(!later.hides_its_clock() && !Server::unknown(None).hides_its_clock());
        assert_eq!(later.name.as_deref(), Some("2 servers"));
        assert_eq!(later.namespace.as_deref(), Some("shop"));
        let ahead = later.now_ms() - moment::since_1970(SystemTime::now());
        assert!((3_590_000..=3_601_000).contains(&ahead), "{ahead}");
        assert_eq!(known.after(&[]), known);
    }

    #[test]
    fn the_clock_of_the_server_does_not_follow_the_time_of_day() {
        let mut told = report("h", None);
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
