//! The places of the programs that tests start.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A server program: they differ in what they say and in what they know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Make {
    /// `DLOCK_REDIS_SERVER`, or the `redis-server` or `valkey-server` in the `PATH`.
    #[default]
    Usual,
    /// A Valkey server: `DLOCK_VALKEY_SERVER`, or the one that `cargo xtask test` gets.
    Valkey,
    /// The oldest Redis that dlock works with, 6.2: `DLOCK_OLD_REDIS_SERVER`, or the one that
    /// `cargo xtask test` gets.
    OldRedis,
}

impl Make {
    /// The server's binary.
    pub(crate) fn program(self) -> PathBuf {
        let (variable, tool, in_path): (_, _, &[&str]) = match self {
            Self::Usual => (
                "DLOCK_REDIS_SERVER",
                None,
                &["redis-server", "valkey-server"],
            ),
            Self::Valkey => (
                "DLOCK_VALKEY_SERVER",
                Some("bin/valkey-server"),
                &["valkey-server"],
            ),
            Self::OldRedis => ("DLOCK_OLD_REDIS_SERVER", Some("bin/redis-6.2-server"), &[]),
        };
        named(variable)
            .or_else(|| tool.and_then(tool_at))
            .or_else(|| in_path.iter().find_map(|name| find(name)))
            .unwrap_or_else(|| panic!("{}", self.advice()))
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Usual => {
                "these tests need redis-server or valkey-server: `cargo xtask test server` \
                 installs it, or do it yourself with `apt-get install redis-server`, or name a \
                 binary in DLOCK_REDIS_SERVER"
            }
            Self::Valkey => {
                "these tests need a Valkey server: `cargo xtask test server` gets one, or name a \
                 binary in DLOCK_VALKEY_SERVER"
            }
            Self::OldRedis => {
                "these tests need a Redis server of version 6.2: `cargo xtask test server` gets \
                 one, or name a binary in DLOCK_OLD_REDIS_SERVER"
            }
        }
    }
}

/// The directory with the programs of PostgreSQL: `DLOCK_POSTGRES`, or what `cargo xtask test` gets.
pub(crate) fn postgres() -> PathBuf {
    let ours = || Some(tool_at("postgresql/bin/postgres")?.parent()?.to_path_buf());
    named("DLOCK_POSTGRES").or_else(ours).unwrap_or_else(|| {
        panic!(
            "these tests need PostgreSQL: `cargo xtask test server` gets it, or name the directory with its \
             programs in DLOCK_POSTGRES"
        )
    })
}

/// `DLOCK_PGBOUNCER`, or the one that `cargo xtask test` gets.
pub(crate) fn pgbouncer() -> PathBuf {
    let ours = || tool_at("postgresql/usr/sbin/pgbouncer");
    named("DLOCK_PGBOUNCER").or_else(ours).unwrap_or_else(|| {
        panic!(
            "these tests need PgBouncer: `cargo xtask test server` gets it, or name its program in \
             DLOCK_PGBOUNCER"
        )
    })
}

/// The libraries that were unpacked beside PostgreSQL, because this machine has none of its own.
pub(crate) fn postgres_libraries() -> OsString {
    let lists = tool_at("postgresql/libraries");
    let read = lists.and_then(|list| std::fs::read_to_string(list).ok());
    read.unwrap_or_default().trim().into()
}

/// The directory of the PostgreSQL that `cargo xtask test` gets, unless another one is named.
pub(crate) fn our_postgres() -> Option<PathBuf> {
    let list = tool_at("postgresql/libraries")?;
    let is_ours = env::var_os("DLOCK_POSTGRES").is_none();
    is_ours.then(|| list.parent().map(Path::to_path_buf))?
}

/// The version of etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EtcdMake {
    /// etcd 3.5: `DLOCK_ETCD`, or the one that `cargo xtask test` gets, which is 3.5.16 on Debian, and 3.5.1 elsewhere.
    #[default]
    Usual,
    /// etcd 3.5.1, with faults that later versions do not have: `DLOCK_EARLY_ETCD`, or the one that `cargo xtask test` gets.
    Early,
    /// The oldest etcd that dlock works with, 3.4: `DLOCK_OLD_ETCD`, or the one that `cargo xtask test` gets.
    Old,
}

/// The server's binary.
pub(crate) fn etcd(make: EtcdMake) -> PathBuf {
    let (variable, tool) = match make {
        EtcdMake::Usual => ("DLOCK_ETCD", "etcd-3.5/usr/bin/etcd"),
        EtcdMake::Early => ("DLOCK_EARLY_ETCD", "bin/etcd-3.5.1"),
        EtcdMake::Old => ("DLOCK_OLD_ETCD", "etcd-3.4/usr/bin/etcd"),
    };
    named(variable).or_else(|| tool_at(tool)).unwrap_or_else(|| {
        panic!("these tests need etcd: `cargo xtask test server` gets it, or name its program in {variable}")
    })
}

impl EtcdMake {
    /// The usual version, unless it is one whose members may have different data after a kill, 3.5.0 to 3.5.2
    /// (<https://github.com/etcd-io/etcd/issues/13766>). One that is named in `DLOCK_ETCD` is taken in any case.
    #[must_use]
    pub fn that_survives_kills() -> Self {
        let is_named = named("DLOCK_ETCD").is_some();
        if is_named || !is_torn_by_kills(&version_of(&etcd(Self::Usual))) {
            Self::Usual
        } else {
            Self::Old
        }
    }
}

/// The first line that a program says about its version.
fn version_of(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output();
    let said = said.unwrap_or_else(|error| panic!("`{}`: {error}", program.display()));
    let said = String::from_utf8_lossy(&said.stdout);
    said.lines().next().unwrap_or_default().to_owned()
}

fn is_torn_by_kills(version: &str) -> bool {
    ["3.5.0", "3.5.1", "3.5.2"]
        .iter()
        .any(|torn| version.ends_with(&format!(" {torn}")))
}

/// `DLOCK_STRACE`, or the one in the `PATH`.
pub(crate) fn strace() -> PathBuf {
    let found = named("DLOCK_STRACE").or_else(|| find("strace"));
    found.unwrap_or_else(|| {
        panic!("these tests need strace: `cargo xtask test server` installs it, or name its program in DLOCK_STRACE")
    })
}

/// `DLOCK_MEMCACHED`, or the one that `cargo xtask test` gets, or the one in the `PATH`.
pub(crate) fn memcached() -> PathBuf {
    let ours = || tool_at("memcached/usr/bin/memcached");
    let found = named("DLOCK_MEMCACHED").or_else(ours);
    found.or_else(|| find("memcached")).unwrap_or_else(|| {
        panic!(
            "these tests need memcached: `cargo xtask test server` gets it, or name its program in \
             DLOCK_MEMCACHED"
        )
    })
}

/// The libraries that were unpacked beside memcached, because this machine has none of its own.
pub(crate) fn memcached_libraries() -> OsString {
    let lists = tool_at("memcached/libraries");
    let read = lists.and_then(|list| std::fs::read_to_string(list).ok());
    read.unwrap_or_default().trim().into()
}

/// A browser, and what was unpacked beside it.
pub(crate) struct Chromium {
    pub(crate) program: PathBuf,
    /// The libraries that this machine lacks.
    pub(crate) libraries: OsString,
    /// The settings of its fonts.
    pub(crate) fonts: Option<PathBuf>,
}

/// `DLOCK_CHROMIUM`, or the one that `cargo xtask test` gets, or one in the `PATH`.
pub(crate) fn chromium() -> Chromium {
    const INSTALLED: [&str; 5] = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ];
    let ours = || {
        let folder = tool_at("chromium/fonts.conf")?.parent()?.to_path_buf();
        let list = std::fs::read_to_string(folder.join("libraries")).ok()?;
        Some(Chromium {
            program: folder.join("usr/lib/chromium/chromium-headless-shell"),
            libraries: list.trim().into(),
            fonts: Some(folder.join("fonts.conf")),
        })
    };
    let plain = |program| Chromium {
        program,
        libraries: OsString::new(),
        fonts: None,
    };
    let found = named("DLOCK_CHROMIUM").map(plain).or_else(ours);
    let found = found.or_else(|| INSTALLED.iter().find_map(|name| find(name)).map(plain));
    found.unwrap_or_else(|| {
        panic!(
            "these tests need Chromium: `cargo xtask test server` gets it, or name its program in DLOCK_CHROMIUM"
        )
    })
}

/// The directory with ZooKeeper and its libraries: `DLOCK_ZOOKEEPER`, or what `cargo xtask test` gets.
pub(crate) fn zookeeper() -> PathBuf {
    let ours = || {
        Some(
            tool_at("zookeeper/usr/share/java/zookeeper.jar")?
                .parent()?
                .to_path_buf(),
        )
    };
    named("DLOCK_ZOOKEEPER").or_else(ours).unwrap_or_else(|| {
        panic!(
            "these tests need ZooKeeper: `cargo xtask test zookeeper` gets it, or name the directory with \
             zookeeper.jar and its libraries in DLOCK_ZOOKEEPER"
        )
    })
}

/// `DLOCK_JAVA`, or the one in the `PATH`.
pub(crate) fn java() -> PathBuf {
    named("DLOCK_JAVA")
        .or_else(|| find("java"))
        .unwrap_or_else(|| {
            panic!("these tests need Java: `cargo xtask test zookeeper` installs it, or name its program in DLOCK_JAVA")
        })
}

/// A call of promtool: `DLOCK_PROMTOOL`, or the one that `cargo xtask test` gets, or the one in the `PATH`.
#[must_use]
pub fn promtool() -> Command {
    let ours = || tool_at("promtool/promtool");
    let found = named("DLOCK_PROMTOOL").or_else(ours);
    Command::new(found.or_else(|| find("promtool")).unwrap_or_else(|| {
        panic!(
            "these tests need promtool of Prometheus: `cargo xtask test server` gets it, or name its program in \
             DLOCK_PROMTOOL"
        )
    }))
}

/// A call of `systemd-analyze`: `DLOCK_SYSTEMD_ANALYZE`, or the one that `cargo xtask test` gets, or the one in the
/// `PATH`.
#[must_use]
pub fn systemd_analyze() -> Command {
    let named = named("DLOCK_SYSTEMD_ANALYZE");
    if let Some(list) = tool_at("systemd/libraries").filter(|_| named.is_none()) {
        let folder = list.parent().expect("a file lies in a folder");
        let libraries = std::fs::read_to_string(&list).unwrap_or_default();
        let mut command = Command::new(folder.join("usr/bin/systemd-analyze"));
        command.env("LD_LIBRARY_PATH", libraries.trim());
        // Older packages have the units that others depend on in `lib`.
        let units = ["usr/lib/systemd/system", "lib/systemd/system"].map(|it| folder.join(it));
        let units = env::join_paths(units).expect("a path of the workspace has no colon");
        command.env("SYSTEMD_UNIT_PATH", units);
        return command;
    }
    Command::new(named.or_else(|| find("systemd-analyze")).unwrap_or_else(|| {
        panic!(
            "these tests need systemd-analyze: `cargo xtask test server` gets it, or name its program in \
             DLOCK_SYSTEMD_ANALYZE"
        )
    }))
}

/// A call of Python that finds the package `redis`: `DLOCK_PYTHON`, or `python3`, with what
/// `cargo xtask test` gets for it.
#[must_use]
pub fn python() -> Command {
    static PROGRAM: OnceLock<(PathBuf, Option<OsString>)> = OnceLock::new();
    let (program, path) = PROGRAM.get_or_init(|| {
        let program = named("DLOCK_PYTHON").unwrap_or_else(|| "python3".into());
        let path = python_path();
        let is_there = call(&program, path.as_ref())
            .args(["-c", "import redis.lock"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        assert!(
            is_there,
            "these tests need Python 3 and its package `redis`, which `{}` lacks: `cargo xtask \
             test server` gets it, or name a Python that has it in DLOCK_PYTHON",
            program.display()
        );
        (program, path)
    });
    call(program, path.as_ref())
}

fn call(program: &Path, path: Option<&OsString>) -> Command {
    let mut command = Command::new(program);
    // Nothing is written beside the sources, and every line is there when it is printed.
    command.args(["-B", "-u"]);
    command.envs(path.map(|path| ("PYTHONPATH", path)));
    command
}

/// The package that belongs to the tests comes first.
fn python_path() -> Option<OsString> {
    let package = tool_at("python/redis/__init__.py")?;
    let folder = package.ancestors().nth(2)?.to_path_buf();
    let before = env::var_os("PYTHONPATH").unwrap_or_default();
    let others = env::split_paths(&before).filter(|path| !path.as_os_str().is_empty());
    env::join_paths([folder].into_iter().chain(others)).ok()
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|named| !named.is_empty())
        .map(Into::into)
}

/// A file below `target/tools`.
fn tool_at(path: &str) -> Option<PathBuf> {
    let test = env::current_exe().expect("a running test knows its binary");
    // target/debug/deps/test-0123 lies below the folder in which target/tools is.
    test.ancestors()
        .skip(1)
        .map(|directory| directory.join("tools").join(path))
        .find(|candidate| candidate.is_file())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_versions_of_etcd_do_not_survive_kills() {
        for (version, is_torn) in [
            ("etcd Version: 3.5.0", true),
            ("etcd Version: 3.5.1", true),
            ("etcd Version: 3.5.2", true),
            ("etcd Version: 3.5.3", false),
            ("etcd Version: 3.5.16", false),
            ("etcd Version: 3.5.21", false),
            ("etcd Version: 3.4.23", false),
        ] {
            assert_eq!(is_torn_by_kills(version), is_torn, "{version}");
        }
    }
}
