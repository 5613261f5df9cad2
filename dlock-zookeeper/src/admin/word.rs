//! The word `srvr`, by which servers tell their version and their mode. It is one of the "four letter words". By default, servers
//! answer only this one.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// The longest answer that is read.
const LONGEST: u64 = 64 * 1024;

/// The answer of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) version: Option<String>,
    /// `leader`, `follower`, `observer` or `standalone`.
    pub(super) mode: Option<String>,
}

/// Asks a server. The answer is empty if it does not answer, or refuses the word.
pub(super) async fn ask(host: &str, limit: Duration) -> Told {
    let asked = async {
        let mut stream = if has_port(host) {
            TcpStream::connect(host).await?
        } else {
            TcpStream::connect(format!("{host}:2181")).await?
        };
        stream.write_all(b"srvr").await?;
        let mut said = String::new();
        stream.take(LONGEST).read_to_string(&mut said).await?;
        Ok::<_, std::io::Error>(said)
    };
    match timeout(limit, asked).await {
        Ok(Ok(said)) => read(&said),
        _ => Told::default(),
    }
}

/// In the brackets of an address there are colons too.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
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

    #[test]
    fn an_address_has_a_port_or_not() {
        for (host, has) in [
            ("a:2181", true),
            ("a", false),
            ("[::1]", false),
            ("[::1]:2181", true),
        ] {
            assert_eq!(has_port(host), has, "{host}");
        }
    }
}
