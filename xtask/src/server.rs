//! Sees to it that the tests find a server to start, and installs one where that is possible.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BY_HAND: &str = "\
install a server and run this again:
    Debian, Ubuntu   apt-get install redis-server
    Fedora           dnf install valkey
    macOS            brew install redis
or name a binary: DLOCK_REDIS_SERVER=/path/to/redis-server";

/// What the decision depends on.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// The value of `DLOCK_REDIS_SERVER`, if that is no file.
    wrongly_named: Option<PathBuf>,
    /// The named server, else the one in the `PATH`.
    found: Option<PathBuf>,
    /// A Debian or Ubuntu with `apt-get`.
    debian: bool,
    rights: Rights,
    /// `DLOCK_NO_INSTALL` is set.
    forbidden: bool,
}

/// How packages can be installed without asking anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rights {
    #[default]
    None,
    /// sudo works without a password.
    Sudo,
    Root,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Use(PathBuf),
    Install { sudo: bool },
    Refuse(String),
}

impl Facts {
    fn gather() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let named = set("DLOCK_REDIS_SERVER").map(PathBuf::from);
        let in_path = || find("redis-server").or_else(|| find("valkey-server"));
        Self {
            wrongly_named: named.clone().filter(|path| !path.is_file()),
            found: named.or_else(in_path),
            debian: Path::new("/etc/debian_version").exists() && find("apt-get").is_some(),
            rights: if succeeds("sh", &["-c", "test \"$(id -u)\" = 0"]) {
                Rights::Root
            } else if succeeds("sudo", &["-n", "true"]) {
                Rights::Sudo
            } else {
                Rights::None
            },
            forbidden: set("DLOCK_NO_INSTALL").is_some(),
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
        let obstacle = match self.rights {
            _ if self.forbidden => ", and DLOCK_NO_INSTALL is set",
            _ if !self.debian => "",
            Rights::None => ", and no right to install it without a password",
            rights => {
                return Plan::Install {
                    sudo: rights == Rights::Sudo,
                };
            }
        };
        Plan::Refuse(format!("no redis-server found{obstacle}; {BY_HAND}"))
    }
}

/// Finds or installs a server, or says why there is none.
pub(crate) fn provide() -> Result<(), String> {
    match Facts::gather().plan() {
        Plan::Use(path) => println!("server: {}", path.display()),
        Plan::Refuse(reason) => return Err(reason),
        Plan::Install { sudo } => {
            println!("no redis-server found: installing it");
            // A mirror that is down need not be the one that has the package.
            if !apt_get(sudo, &["update"]) {
                eprintln!("warning: the package lists are not up to date");
            }
            // Debian may start a server of its own after this. The tests leave it alone and
            // start theirs on other ports.
            let installed = apt_get(
                sudo,
                &["install", "-y", "--no-install-recommends", "redis-server"],
            );
            match find("redis-server") {
                Some(path) => println!("server: {}", path.display()),
                None if installed => {
                    return Err("redis-server is installed, but not in the PATH".into());
                }
                None => return Err(format!("redis-server could not be installed; {BY_HAND}")),
            }
        }
    }
    Ok(())
}

fn apt_get(sudo: bool, arguments: &[&str]) -> bool {
    // Through `env`, because sudo drops variables that are set before it. The options wait
    // for another apt-get and for a network with gaps.
    let fixed = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        "DPkg::Lock::Timeout=120",
        "-o",
        "Acquire::Retries=3",
    ];
    let words: Vec<&str> = sudo
        .then_some(["sudo", "-n"])
        .into_iter()
        .flatten()
        .chain(fixed)
        .chain(arguments.iter().copied())
        .collect();
    println!("$ {}", words.join(" "));
    Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn succeeds(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|it| it.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian(rights: Rights) -> Facts {
        Facts {
            debian: true,
            rights,
            ..Facts::default()
        }
    }

    #[test]
    fn what_is_there_is_used_whatever_the_rights() {
        let facts = Facts {
            found: Some("/usr/bin/redis-server".into()),
            forbidden: true,
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
    fn sudo_is_used_only_when_needed() {
        assert_eq!(debian(Rights::Root).plan(), Plan::Install { sudo: false });
        assert_eq!(debian(Rights::Sudo).plan(), Plan::Install { sudo: true });
    }

    #[test]
    fn a_refusal_says_what_to_install() {
        let forbidden = Facts {
            forbidden: true,
            ..debian(Rights::Root)
        };
        let elsewhere = Facts {
            debian: false,
            ..debian(Rights::Root)
        };
        for facts in [forbidden, elsewhere, debian(Rights::None)] {
            let Plan::Refuse(reason) = facts.plan() else {
                panic!("this machine is not to be changed");
            };
            assert!(reason.contains("apt-get install redis-server"), "{reason}");
        }
    }
}
