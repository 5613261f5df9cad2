//! Answers of a node that has not carried out a request: a redirection to another node, or a request to retry.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::redis::config::url::Address;

/// A redirection. Nothing of the request was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot belongs to another node.
    Moved(Place),
    /// The slot is being moved, and the key is already at the other node, or will be.
    Ask(Place),
    /// Some of the keys are at one node and some at the other.
    TryAgain,
}

/// The address of another node, as a node announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Empty if the node means its own host, as the client reached it.
    host: String,
    port: u16,
}

impl Redirect {
    /// Returns `None` for any other answer.
    pub(crate) fn of(error: &RedisError) -> Option<Self> {
        let ErrorKind::Server(kind) = error.kind() else {
            return None;
        };
        let place = || Place::parse(error.redirect_node()?.0);
        match kind {
            ServerErrorKind::Moved => place().map(Self::Moved),
            ServerErrorKind::Ask => place().map(Self::Ask),
            ServerErrorKind::TryAgain => Some(Self::TryAgain),
            _ => None,
        }
    }
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().ok().filter(|port| *port != 0)?,
        })
    }

    /// Returns the address as the node at `from` means it, or `None` if the node has not announced one.
    pub(crate) fn seen_from(&self, from: &Address) -> Option<Address> {
        resolve(&self.host, self.port, from)
    }
}

/// Resolves a host in the form that nodes use: empty for the host of `from`, and a question mark for a host without a
/// name.
pub(crate) fn resolve(host: &str, port: u16, from: &Address) -> Option<Address> {
    match host {
        "?" => None,
        "" => match from {
            Address::Tcp(host, _) => Some(Address::Tcp(host.clone(), port)),
            #[cfg(unix)]
            Address::Unix(_) => None,
        },
        host => Some(Address::Tcp(host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn redirect(line: &str) -> Option<Redirect> {
        let error = redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
            .and_then(Value::extract_error)
            .expect_err("the line is an error");
        Redirect::of(&error)
    }

    #[test]
    fn redirects_are_read() {
        let from = Address::Tcp("here".into(), 1);
        let seen = |line: &str| match redirect(line) {
            Some(Redirect::Moved(place) | Redirect::Ask(place)) => place.seen_from(&from),
            other => panic!("{other:?}"),
        };
        let tcp = |host: &str, port| Some(Address::Tcp(host.into(), port));
        assert_eq!(seen("MOVED 3999 127.0.0.1:6381"), tcp("127.0.0.1", 6381));
        assert_eq!(seen("ASK 3999 db.example:7"), tcp("db.example", 7));
        assert_eq!(
            seen("MOVED 3999 2001:db8::1:6381"),
            tcp("2001:db8::1", 6381)
        );
        assert_eq!(seen("MOVED 3999 :6381"), tcp("here", 6381));
        assert_eq!(seen("MOVED 3999 ?:6381"), None);
        let again = redirect("TRYAGAIN Multiple keys request during rehashing of slot");
        assert_eq!(again, Some(Redirect::TryAgain));
    }

    #[test]
    fn nothing_else_is_one() {
        for line in [
            "CLUSTERDOWN Hash slot not served",
            "ERR MOVED 1 a:2",
            "MOVED",
            "MOVED 3999 nowhere",
            "MOVED 3999 a:0",
        ] {
            assert_eq!(redirect(line), None, "{line}");
        }
    }
}
