//! The decisions where to get a tool, and the message where there is none.

use std::path::{Path, PathBuf};

use super::host;
use super::provide::{Plan, decide};
use super::table::*;
use super::tool::{Source, Tool};
use super::{debian, version};

const ALL: [&[&Tool]; 4] = [
    SERVERS,
    ETCDS,
    ZOOKEEPER,
    &[&MDBOOK, &CARGO_DENY, &CARGO_HACK, &CARGO_FUZZ, &TYPOS],
];

fn tools() -> impl Iterator<Item = &'static Tool> {
    ALL.into_iter().flatten().copied()
}

const FORBIDDEN: Option<&str> = Some("DLOCK_NO_INSTALL is set");

#[test]
fn what_is_named_is_used_before_all_else() {
    let named = Some(Ok("/opt/own".into()));
    let plan = decide(named, || Some("/usr/bin/other".into()), || None);
    assert_eq!(plan, Ok(Plan::Use("/opt/own".into())));
}

#[test]
fn a_name_without_a_file_is_not_replaced() {
    let gone = || Err::<(), _>("it is gone".to_owned());
    let plan = decide(Some(gone().map(|()| PathBuf::new())), || None, || None);
    assert_eq!(plan.map(drop), gone());
}

#[test]
fn what_is_there_is_used_whatever_the_rights() {
    let there = || Some("/usr/bin/redis-server".into());
    let plan = decide(None, there, || FORBIDDEN);
    assert_eq!(plan, Ok(Plan::Use("/usr/bin/redis-server".into())));
}

#[test]
fn what_is_missing_is_got_where_that_is_allowed() {
    assert_eq!(decide(None, || None, || None), Ok(Plan::Get));
    let plan = decide(None, || None, || FORBIDDEN);
    assert_eq!(plan, Ok(Plan::Replace("DLOCK_NO_INSTALL is set")));
}

#[test]
fn a_refusal_says_what_to_name() {
    for tool in tools() {
        let reason = tool.missing("DLOCK_NO_INSTALL is set");
        let begin = format!("no {} found, and DLOCK_NO_INSTALL is set; ", tool.name);
        assert!(reason.starts_with(&begin), "{reason}");
        let named = format!("{}=/path/to/", tool.variable);
        assert_eq!(reason.matches(&named).count(), 1, "{reason}");
    }
}

#[test]
fn nothing_is_got_where_it_is_forbidden_or_cannot_be() {
    let debian = host::Facts {
        is_debian: true,
        sudo: Some(true),
        is_forbidden: false,
    };
    for (source, has_pip, facts, is_got) in [
        (Source::System, false, debian, true),
        (Source::Debian, false, debian, true),
        (Source::Pip, false, debian, true),
        (
            Source::System,
            true,
            host::Facts {
                sudo: None,
                ..debian
            },
            false,
        ),
        (
            Source::Debian,
            true,
            host::Facts {
                sudo: None,
                ..debian
            },
            true,
        ),
        (
            Source::Pip,
            false,
            host::Facts {
                sudo: None,
                ..debian
            },
            false,
        ),
        (Source::Pip, true, host::Facts::default(), true),
        (Source::Module, true, host::Facts::default(), true),
        (Source::Module, false, host::Facts::default(), false),
        (Source::Debian, true, host::Facts::default(), false),
        (
            Source::Pip,
            true,
            host::Facts {
                is_forbidden: true,
                ..debian
            },
            false,
        ),
        (
            Source::Debian,
            true,
            host::Facts {
                is_forbidden: true,
                ..debian
            },
            false,
        ),
        (
            Source::System,
            true,
            host::Facts {
                is_forbidden: true,
                ..debian
            },
            false,
        ),
    ] {
        let obstacle = facts.obstacle(source, || has_pip);
        assert_eq!(obstacle.is_none(), is_got, "{source:?} {has_pip} {facts:?}");
    }
}

#[test]
fn a_version_is_read() {
    for (said, read) in [
        ("Redis server v=7.0.15 sha=00000000:0 bits=64", Some((7, 0))),
        (
            "postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)",
            Some((15, 20)),
        ),
        ("postgres (PostgreSQL) 18beta1", Some((18, 0))),
        ("memcached 1.6.18", Some((1, 6))),
        ("systemd 252 (252.38-1~deb12u1)", Some((252, 0))),
        (
            "Chromium 156.0.8078.108 built on Debian GNU/Linux 12",
            Some((156, 0)),
        ),
        ("Google Chrome 119.0.6045.105 ", Some((119, 0))),
        ("openjdk version \"17.0.15\" 2025-04-15", Some((17, 0))),
        ("something else", None),
    ] {
        assert_eq!(version::version(said), read, "{said}");
    }
}

#[test]
fn old_versions_are_refused() {
    for (tool, said) in [
        (REDIS, "Redis server v=6.0.16 sha=00000000:0"),
        (REDIS, "Redis server v=2.8.4 sha=00000000:0"),
        (POSTGRES, "postgres (PostgreSQL) 13.1"),
        (MEMCACHED, "memcached 1.5.22"),
        (SYSTEMD, "systemd 249"),
        (CHROMIUM, "Google Chrome 119.0.6045.105"),
        // Not what it is taken for.
        (SYSTEMD, "something else"),
        (ETCD, "etcd Version: 2.3"),
        (PROMTOOL, "prometheus, version 2.42"),
    ] {
        let reason = tool.refuse(said).unwrap_err();
        assert!(reason.contains(said), "{reason}");
    }
    for (tool, said) in [
        (REDIS, "Redis server v=6.2.0 sha=00000000:0"),
        (REDIS, "Redis server v=6.10.1 sha=00000000:0"),
        (REDIS, "Redis server v=8.2-rc1 sha=00000000:0"),
        (REDIS, "Valkey server v=8.0.1 sha=00000000:0"),
        (REDIS, "a server of another make"),
        (ETCD, "etcd Version: 3.5.16"),
        (POSTGRES, "postgres (PostgreSQL) 14.0"),
    ] {
        assert_eq!(tool.refuse(said), Ok(()), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_delays_nothing_is_refused() {
    assert!(version::delays(Path::new("/bin/false")).is_err());
    assert!(version::delays(Path::new("/nonexistent/strace")).is_err());
}

#[test]
fn a_simulated_installation_names_its_packages() {
    let said = "Inst libc-ares2 (1.18.1-3 Debian:12 [amd64])\n\
                Inst postgresql-common (248 Debian:12 [all])\n\
                Conf libc-ares2 (1.18.1-3 Debian:12 [amd64])\n";
    let named: Vec<_> = debian::installed_in(said).collect();
    assert_eq!(named, ["libc-ares2", "postgresql-common"]);
}

#[test]
fn the_server_is_what_the_package_without_a_number_stands_for() {
    let said = "postgresql\n  Depends: postgresql-15\n  Suggests: postgresql-doc\n";
    assert_eq!(debian::server_in(said), Some(15));
    assert_eq!(
        debian::server_in("postgresql\n  Suggests: postgresql-doc\n"),
        None
    );
}

#[test]
fn only_files_that_a_program_loads_are_unpacked() {
    for (tool, package, is_needed) in [
        (POSTGRES, "libc-ares2", true),
        (POSTGRES, "libllvm14", false),
        (POSTGRES, "libjson-perl", false),
        (POSTGRES, "postgresql-common", false),
        (CHROMIUM, "chromium-common", true),
        (CHROMIUM, "libogg0", true),
        (CHROMIUM, "xdg-utils", false),
    ] {
        assert_eq!((tool.needs)(package), is_needed, "{package}");
    }
}

#[test]
fn the_place_of_packages_is_that_of_debian_itself() {
    let said = "Debian Backports\thttp://a/debian/\tbookworm-backports\n\
                Debian-Security\thttp://a/debian-security/\tbookworm-security\n\
                Debian\tcdrom:[Debian GNU/Linux 12]/\tbookworm\n\
                Debian\thttp://b/debian/\tbookworm\nDebian\thttp://b/debian/\tbookworm-updates\n";
    let expected = ["bookworm", "bookworm-updates"].map(|it| ("http://b/debian/", it));
    assert_eq!(debian::debian_in(said), expected);
    assert!(debian::debian_in("Ubuntu\thttp://a/ubuntu/\tnoble\n").is_empty());
}
