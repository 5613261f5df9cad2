//! How often a server has run each of its commands.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;

use crate::Failure;

/// Calls by the name of the command, a subcommand as in `script|load`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats(BTreeMap<String, u64>);

impl Stats {
    pub(crate) async fn of(connection: &mut MultiplexedConnection) -> Result<Self, Failure> {
        let report: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(connection)
            .await?;
        Ok(Self::read(&report))
    }

    /// The sum over several servers.
    pub(crate) async fn of_all(connections: &mut [MultiplexedConnection]) -> Result<Self, Failure> {
        let mut sum = Self::default();
        for connection in connections {
            for (name, calls) in Self::of(connection).await?.0 {
                *sum.0.entry(name).or_default() += calls;
            }
        }
        Ok(sum)
    }

    pub(crate) fn read(report: &str) -> Self {
        let line = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        let mut calls: BTreeMap<_, _> = report.lines().filter_map(line).collect();
        // Sent to count.
        calls.remove("info");
        Self(calls)
    }

    /// How often one command was run.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The commands since `earlier`, except for those named.
    pub(crate) fn since(&self, earlier: &Self, except: &[&str]) -> u64 {
        self.0
            .iter()
            .filter(|(name, _)| !except.contains(&name.as_str()))
            .map(|(name, calls)| calls.saturating_sub(earlier.0.get(name).copied().unwrap_or(0)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_between_two_reports() {
        let before = Stats::read("# Commandstats\r\ncmdstat_set:calls=12,usec=3\r\n");
        let after = Stats::read(
            "cmdstat_set:calls=20,usec=3\r\ncmdstat_script|load:calls=3,usec=1\r\n\
             cmdstat_info:calls=9,usec=1\r\ncmdstat_get:calls=5,usec=1\r\n",
        );
        assert_eq!(after.since(&before, &[]), 16);
        assert_eq!(after.since(&before, &["get", "set"]), 3);
        assert_eq!(after.since(&after, &[]), 0);
    }
}
