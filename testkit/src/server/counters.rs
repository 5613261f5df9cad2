//! The server's own counters of commands.

use super::RedisServer;

impl RedisServer {
    async fn command_stats(&self) -> String {
        let mut connection = self.connection().await;
        redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut connection)
            .await
            .expect("INFO answers text")
    }

    /// The number of times that the server has run a command since it started, scripts included.
    ///
    /// For a subcommand write `"script|load"`.
    pub async fn command_count(&self, name: &str) -> u64 {
        let report = self.command_stats().await;
        calls(&report, name)
    }

    /// The same without the times that it has failed: a connection is opened with an `EVALSHA` of no script.
    pub async fn success_count(&self, name: &str) -> u64 {
        let report = self.command_stats().await;
        calls(&report, name) - failures(&report, name)
    }
}

fn calls(report: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{}:calls=", command.to_ascii_lowercase());
    report
        .lines()
        .find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

fn failures(report: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{}:", command.to_ascii_lowercase());
    let line = report.lines().find_map(|line| line.strip_prefix(&prefix));
    let mut fields = line.unwrap_or_default().split(',');
    fields
        .find_map(|field| field.strip_prefix("failed_calls=")?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_per_command() {
        let report = "cmdstat_set:calls=12,usec=3,rejected_calls=1,failed_calls=4\r\n\
                      cmdstat_get:calls=5,usec=1\r\n";
        assert_eq!(failures(report, "SET"), 4);
        assert_eq!(failures(report, "get"), 0);
        assert_eq!(failures(report, "del"), 0);
    }

    #[test]
    fn calls_are_read_per_command() {
        let report =
            "# Commandstats\r\ncmdstat_set:calls=12,usec=3\r\ncmdstat_setex:calls=5,usec=1\r\n";
        assert_eq!(calls(report, "SET"), 12);
        assert_eq!(calls(report, "setex"), 5);
        assert_eq!(calls(report, "get"), 0);
    }
}
