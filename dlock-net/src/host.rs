//! The hosts of a URL, each with its port.

use std::{fmt, net::Ipv6Addr};

const NO_HOST: &str = "it has no host, an empty one, or an IPv6 address without brackets";

// Without the text, which may be a part of a password.
const NO_PORT: &str = "a port is not a number from 1 to 65535";

const STRANGE: &str = "a host has a character that host names do not have";

/// A host and its port. Its text is `host:port`, or `[::1]:port`.
///
/// ```
/// use dlock_net::Host;
///
/// let hosts = Host::read_all("db-1,[::1]:5433", 5432).unwrap();
/// assert_eq!((&*hosts[1].name, hosts[1].port), ("::1", 5433));
/// assert_eq!(hosts[0].to_string(), "db-1:5432");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// The name, or the address without brackets.
    pub name: String,
    /// The port, from 1.
    pub port: u16,
}

impl Host {
    /// Reads `host` or `host:port`.
    ///
    /// # Errors
    ///
    /// The reason, without the text, which may be a part of a password.
    pub fn read(text: &str, default_port: u16) -> Result<Self, &'static str> {
        let (name, port) = match text.rsplit_once(':') {
            // In the brackets of an address there are colons too.
            Some((name, port)) if !text.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let port = match port {
            Some(port) => port_of(port).ok_or(NO_PORT)?,
            None => default_port,
        };
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let name = match address {
            Some(address) if is_address(address) => address,
            None if name.is_empty() || name.contains(':') => return Err(NO_HOST),
            None if name.bytes().all(is_of_name) => name,
            _ => return Err(STRANGE),
        };
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }

    /// Reads hosts with commas between them, each of which must be there once.
    ///
    /// # Errors
    ///
    /// The reason. It names a host only if all of them are valid.
    pub fn read_all(text: &str, default_port: u16) -> Result<Vec<Self>, String> {
        let hosts = text.split(',').map(|host| Self::read(host, default_port));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let is_twice = |at: &usize| hosts[..*at].contains(&hosts[*at]);
        match (0..hosts.len()).find(is_twice) {
            Some(at) => Err(format!(
                "it names {} twice; name each server once",
                hosts[at]
            )),
            None => Ok(hosts),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') {
            write!(f, "[{name}]:{port}")
        } else {
            write!(f, "{name}:{port}")
        }
    }
}

/// `parse` would take a plus sign.
fn port_of(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| *port > 0);
    port.filter(|_| is_number)
}

/// Returns `true` unless the end of a list of hosts may be that of a password.
pub(crate) fn has_ports(hosts: &str) -> bool {
    let mut with_ports = hosts.split(',').filter(|host| !host.ends_with(']'));
    with_ports.all(|host| {
        host.rsplit_once(':')
            .is_none_or(|(_, port)| port_of(port).is_some())
    })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// An address of a link has the name of its interface behind it.
fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "0"));
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port_or_the_usual_one() {
        for (text, name, port) in [
            ("a", "a", 7000),
            ("zk_1.internal:65535", "zk_1.internal", 65535),
            ("10.0.0.7:1", "10.0.0.7", 1),
            ("[::1]", "::1", 7000),
            ("[2001:db8::7]:80", "2001:db8::7", 80),
            ("[fe80::1%eth0]", "fe80::1%eth0", 7000),
        ] {
            let host = Host::read(text, 7000).unwrap();
            assert_eq!((&*host.name, host.port), (name, port), "{text}");
            let again = Host::read(&host.to_string(), 1).unwrap();
            assert_eq!(again, host, "{text}");
        }
    }

    #[test]
    fn a_host_that_cannot_be_one_is_refused() {
        for (text, reason) in [
            ("", NO_HOST),
            (":80", NO_HOST),
            ("::1", NO_HOST),
            ("2001:db8::7", NO_HOST),
            ("a:", NO_PORT),
            ("a:0", NO_PORT),
            ("a:65536", NO_PORT),
            ("a:+80", NO_PORT),
            ("a:-1", NO_PORT),
            ("a:x", NO_PORT),
            ("[::1]:x", NO_PORT),
            ("[]", STRANGE),
            ("[a]:80", STRANGE),
            ("[::1%]", STRANGE),
            ("a]", STRANGE),
            ("a b", STRANGE),
            ("a%20b", STRANGE),
            ("\u{fc}", STRANGE),
        ] {
            assert_eq!(Host::read(text, 7000).unwrap_err(), reason, "{text}");
        }
    }

    #[test]
    fn each_host_is_there_once() {
        assert_eq!(Host::read_all("a,b:1,a:1", 7000).unwrap().len(), 3);
        for (text, reason) in [
            ("a,b,a:7000", "it names a:7000 twice"),
            ("[::1]:1,[::1]:1", "it names [::1]:1 twice"),
            ("a,,b", "no host"),
            ("", "no host"),
            ("a,b:x", "a port is not"),
        ] {
            let error = Host::read_all(text, 7000).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
