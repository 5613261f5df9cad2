//! Messages of operators who have ended leases by force: the holder renews at once, and finds out.
//!
//! A session has one watch, for the node `notice`, whatever it locks. A watch for the child of each lease would cost two messages
//! for each lock. The text of the node has a line for each lease that was ended within the last minute, so a process that
//! reads late, or connects again, misses none. A message that is lost costs the time until the next renewal. Any
//! client that may write the node can have a lease renewed early, and nothing else.

use std::{convert::Infallible, time::Duration};

use dlock_runtime::{LockKey, store::OwnerId};
use tokio::time::sleep;
use zookeeper_client::{Client, Error};

use crate::{names, sinks::Sinks};

/// The pause before the watch is set again.
const PAUSE: Duration = Duration::from_secs(1);

/// The time for which messages are kept at least.
#[cfg(feature = "admin")]
pub(crate) const KEPT: Duration = Duration::from_secs(60);

/// The greatest length of the text, of which servers accept a megabyte.
#[cfg(feature = "admin")]
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// The node with the messages.
pub(crate) fn path(root: &str) -> String {
    format!("{root}/notice")
}

/// A lease that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
}

#[cfg(feature = "admin")]
impl Notice {
    pub(crate) fn to_line(&self) -> String {
        format!("{} {}\n", self.owner, names::escaped(self.key.as_str()))
    }
}

/// Reads the lines of the node. Those of another program are no messages.
pub(crate) fn read(text: &[u8]) -> impl Iterator<Item = Notice> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let (owner, key) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        Some(Notice {
            key: LockKey::new(names::unescaped(key)?).ok()?,
            owner: owner.parse().ok()?,
        })
    })
}

/// Passes messages on until the future is dropped.
pub(crate) async fn listen(client: &Client, root: &str, sinks: &Sinks) -> Infallible {
    let path = path(root);
    loop {
        let set = match client.get_and_watch_data(&path).await {
            Ok((text, _, watcher)) => {
                // Those of an earlier session are of owners that are gone.
                for Notice { key, owner } in read(&text) {
                    sinks.wake(&key, owner, 0);
                }
                Ok(Some(watcher))
            }
            Err(error @ (Error::NoNode | Error::NoAuth)) => {
                let set = client.check_and_watch_stat(&path).await;
                // A node that is there since is read at once.
                set.map(|(stat, watcher)| {
                    (stat.is_none() || error == Error::NoAuth).then_some(watcher)
                })
            }
            Err(error) => Err(error),
        };
        match set {
            Ok(Some(watcher)) => drop(watcher.changed().await),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(target: "dlock::store", %error, "cannot listen for operators; it is tried again");
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_and_those_of_other_programs_are_none() {
        let owner = "7d4448409dc011d1b2455ffdce74fad2.7";
        let text = format!("{owner} a b%2Fc\nmine\n{owner}\n{owner} %zz\n{owner} a%0A\nx k\n");
        let read: Vec<_> = read(text.as_bytes()).collect();
        let expected = Notice {
            key: LockKey::new("a b/c").unwrap(),
            owner: owner.parse().unwrap(),
        };
        assert_eq!(read, [expected]);
        assert_eq!(super::read(b"\xff 1").count(), 0);
    }
}
