//! The names of a server under which its page is served.

use std::net::IpAddr;

/// The names of the server.
#[derive(Debug)]
pub(super) enum Hosts {
    Any,
    /// IP addresses, `localhost`, and these names.
    Of(Vec<String>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::Of(Vec::new())
    }
}

impl Hosts {
    /// Adds names, unless all are accepted already.
    pub(super) fn add(&mut self, more: impl Iterator<Item = String>) {
        if let Self::Of(names) = self {
            names.extend(more);
        }
    }

    /// Returns `true` if a request for `host` is answered, with any port.
    pub(super) fn have(&self, host: Option<&str>) -> bool {
        let names = match self {
            Self::Any => return true,
            Self::Of(names) => names,
        };
        let Some(host) = host else {
            return false;
        };
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        // No other site can let an address point elsewhere.
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || names.iter().any(|own| name.eq_ignore_ascii_case(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_the_names_of_the_server_are_answered() {
        let mut hosts = Hosts::default();
        for host in [
            "localhost",
            "LOCALHOST:8330",
            "127.0.0.1:8330",
            "10.0.0.1",
            "[::1]:80",
            "[fe80::1]",
        ] {
            assert!(hosts.have(Some(host)), "{host}");
        }
        assert!(!hosts.have(Some("locks.example")));
        hosts.add(["locks.example".to_owned()].into_iter());
        for host in ["locks.example", "Locks.Example:443"] {
            assert!(hosts.have(Some(host)), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8330",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "sub.locks.example",
            "locks.example.evil.example",
            "",
            ":8330",
        ] {
            assert!(!hosts.have(Some(host)), "{host}");
        }
        assert!(!hosts.have(None));
        let mut any = Hosts::Any;
        any.add(["locks.example".to_owned()].into_iter());
        assert!(any.have(Some("evil.example")) && any.have(None));
    }
}
