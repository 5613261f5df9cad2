//! Asks a server for its version and its mode, by the word `srvr`.

use tokio::time::timeout;

use crate::{config::Config, dial::word};

/// The answer of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) version: Option<String>,
    /// `leader`, `follower`, `observer` or `standalone`.
    pub(super) mode: Option<String>,
}

/// Asks a server. The answer is empty if it does not answer, or refuses the word.
pub(super) async fn ask(config: &Config, host: &str) -> Told {
    match timeout(config.response_limit, word::ask(config, host)).await {
        Ok(Ok(said)) => read(&said),
        _ => Told::default(),
    }
}

fn read(said: &str) -> Told {
    let after = |begin: &str| said.lines().find_map(|line| line.strip_prefix(begin));
    // `3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC`
    let version = after("Zookeeper version: ").map(|it| {
        let end = it.find(|c: char| c != '.' && !c.is_ascii_digit());
        it[..end.unwrap_or(it.len())].to_owned()
    });
    Told {
        version: version.filter(|it| !it.is_empty()),
        mode: after("Mode: ").map(|it| it.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_and_the_mode_are_read() {
        let said = "Zookeeper version: 3.8.0-5a02a05eddb59, built on 2022-02-25 08:49 UTC\n\
                    Latency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n";
        let told = read(said);
        assert_eq!(told.version.as_deref(), Some("3.8.0"));
        assert_eq!(told.mode.as_deref(), Some("follower"));
        for refused in [
            "",
            "srvr is not executed because it is not in the whitelist.\n",
            "This ZooKeeper instance is not currently serving requests\n",
            "Zookeeper version: unknown\n",
        ] {
            assert_eq!(read(refused), Told::default(), "{refused}");
        }
    }
}
