//! Sees to it that the tests find a server to start, and installs one where that is possible.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::{self, find};
use crate::packages;

const BY_HAND: &str = "\
install a server and run this again:
    Debian, Ubuntu   apt-get install redis-server
    Fedora           dnf install valkey
    macOS            brew install redis
or name a binary: DLOCK_REDIS_SERVER=/path/to/redis-server";

/// The first Redis that dlock works with, as its documentation says.
const OLDEST: (u32, u32) = (6, 2);

/// The facts that the decision depends on.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// The value of `DLOCK_REDIS_SERVER`, if that is no file.
    wrongly_named: Option<PathBuf>,
    /// The named server, else the one in the `PATH`.
    found: Option<PathBuf>,
    packages: packages::Facts,
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Use(PathBuf),
    Install { sudo: bool },
    Refuse(String),
}

impl Facts {
    fn gather() -> Self {
        let named = machine::variable("DLOCK_REDIS_SERVER").map(PathBuf::from);
        let in_path = || find("redis-server").or_else(|| find("valkey-server"));
        Self {
            wrongly_named: named.clone().filter(|path| !path.is_file()),
            found: named.or_else(in_path),
            packages: packages::Facts::gather(),
        }
    }

    fn plan(self) -> Plan {
        // Not replaced by another server: the tests would run against the wrong one.
        if let Some(path) = self.wrongly_named {
            let path = path.display();
            return Plan::Refuse(format!("DLOCK_REDIS_SERVER is `{path}`, which is no file"));
        }
        if let Some(path) = self.found {
            return Plan::Use(path);
        }
        match self.packages.plan() {
            Ok(sudo) => Plan::Install { sudo },
            Err(obstacle) => Plan::Refuse(format!("no redis-server found{obstacle}; {BY_HAND}")),
        }
    }
}

/// Finds or installs a server.
pub(crate) fn path() -> Result<PathBuf, String> {
    match Facts::gather().plan() {
        Plan::Use(path) => Ok(path),
        Plan::Refuse(reason) => Err(reason),
        Plan::Install { sudo } => install(sudo),
    }
}

/// Finds or installs a server that is new enough, or says why there is none.
pub(crate) fn provide() -> Result<(), String> {
    let path = path()?;
    let (shown, said) = (path.display(), version(&path)?);
    if let Some(reason) = too_old(&said) {
        return Err(format!("`{shown}` {reason}"));
    }
    println!("server: {shown}: {}", said.trim());
    Ok(())
}

fn install(sudo: bool) -> Result<PathBuf, String> {
    println!("no redis-server found: installing it");
    // Debian may start a server of its own after this. The tests leave it alone and
    // start theirs on other ports.
    let installed = packages::install(sudo, &["redis-server"]);
    find("redis-server").ok_or_else(|| {
        if installed {
            "redis-server is installed, but not in the PATH".into()
        } else {
            format!("redis-server could not be installed; {BY_HAND}")
        }
    })
}

/// The version that a server reports.
fn version(server: &Path) -> Result<String, String> {
    let shown = server.display();
    match Command::new(server).arg("--version").output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("`{shown} --version` failed: {}", output.status)),
        Err(error) => Err(format!("`{shown}` cannot be run: {error}")),
    }
}

/// The reason why the server that reports `said` as its version will not do.
///
/// Asked here because the tests would only show it one failure at a time, late, and in words about
/// something else. What cannot be read is let through: the tests will tell.
fn too_old(said: &str) -> Option<String> {
    let number = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    let mut parts = number.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return None;
    };
    let (oldest_major, oldest_minor) = OLDEST;
    ((major, minor) < OLDEST).then(|| {
        format!(
            "is version {number}, and dlock needs Redis {oldest_major}.{oldest_minor} or later, or Valkey; \
             put a newer one first in the PATH, or name it: DLOCK_REDIS_SERVER=/path/to/redis-server"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Rights;

    fn debian(rights: Rights) -> Facts {
        let packages = packages::Facts {
            debian: true,
            rights,
            forbidden: false,
        };
        Facts {
            packages,
            ..Facts::default()
        }
    }

    #[test]
    fn what_is_there_is_used_whatever_the_rights() {
        let facts = Facts {
            found: Some("/usr/bin/redis-server".into()),
            packages: packages::Facts {
                forbidden: true,
                ..packages::Facts::default()
            },
            ..Facts::default()
        };
        assert_eq!(facts.plan(), Plan::Use("/usr/bin/redis-server".into()));
    }

    #[test]
    fn a_name_without_a_file_is_not_replaced() {
        let facts = Facts {
            wrongly_named: Some("/opt/valkey".into()),
            found: Some("/opt/valkey".into()),
            ..debian(Rights::Root)
        };
        let reason = "DLOCK_REDIS_SERVER is `/opt/valkey`, which is no file";
        assert_eq!(facts.plan(), Plan::Refuse(reason.to_owned()));
    }

    #[test]
    fn old_servers_are_refused() {
        let refused = |version: &str| {
            too_old(&format!(
                "Redis server v={version} sha=00000000:0 malloc=jemalloc-5.2.1 bits=64\n"
            ))
        };
        for version in ["6.2.0", "6.10.1", "7.0.15", "8.2-rc1", "10.0.0"] {
            assert_eq!(refused(version), None, "{version}");
        }
        for version in ["6.0.16", "5.0.14", "2.8.4"] {
            let reason = refused(version).unwrap();
            assert!(
                reason.contains(version) && reason.contains("6.2"),
                "{reason}"
            );
        }
        assert_eq!(too_old("Valkey server v=8.0.1 sha=00000000:0"), None);
        assert_eq!(too_old("a server of another make"), None);
    }

    #[test]
    fn sudo_is_used_only_when_needed() {
        assert_eq!(debian(Rights::Root).plan(), Plan::Install { sudo: false });
        assert_eq!(debian(Rights::Sudo).plan(), Plan::Install { sudo: true });
    }

    #[test]
    fn a_refusal_says_what_to_install() {
        let mut forbidden = debian(Rights::Root);
        forbidden.packages.forbidden = true;
        let mut elsewhere = debian(Rights::Root);
        elsewhere.packages.debian = false;
        for facts in [forbidden, elsewhere, debian(Rights::None)] {
            let Plan::Refuse(reason) = facts.plan() else {
                panic!("this machine is not to be changed");
            };
            assert!(reason.contains("apt-get install redis-server"), "{reason}");
        }
    }
}
