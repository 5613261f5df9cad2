//! The versions of etcd that dlock works with, and the warning about those with known faults of leases.

use dlock_runtime::store::{StoreError, StoreErrorKind};

const OLDEST: [u64; 3] = [3, 4, 0];

/// Checks the version of a member: refuses one that is too old, and warns of one with faults.
///
/// # Errors
///
/// [`StoreErrorKind::Unsupported`] for a version before 3.4.
pub(crate) fn check(version: &str, member: &str) -> Result<(), StoreError> {
    let Some(numbers) = numbers(version) else {
        // A build of another's own. It has answered.
        return Ok(());
    };
    if numbers < OLDEST {
        let text = format!("`{member}` is etcd {version}; dlock needs 3.4 or later");
        let error = StoreError::new(StoreErrorKind::Unsupported, text);
        return Err(error.with_advice().unsent());
    }
    if let Some(fixed) = fixed_in(version) {
        tracing::warn!(
            target: "dlock::store", member, version,
            "this version of etcd can revoke leases that are alive, and lose events of watches; {}update it to {fixed}",
            if is_torn_by_kills(version) { "its members can also disagree after one was killed; " } else { "" },
        );
    }
    Ok(())
}

/// The release in which a leader that was deposed no longer revokes leases, for a version before it.
pub(crate) fn fixed_in(version: &str) -> Option<&'static str> {
    match numbers(version)? {
        [3, 4, patch] if patch < 31 => Some("3.4.31 or later, or better to 3.5.13 or later"),
        [3, 5, patch] if patch < 13 => Some("3.5.13 or later"),
        _ => None,
    }
}

/// Returns `true` if a member of this version may come back with other data than the others when it was killed: 3.5.0 to 3.5.2,
/// <https://github.com/etcd-io/etcd/issues/13766>.
pub(crate) fn is_torn_by_kills(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| ([3, 5, 0]..[3, 5, 3]).contains(&numbers))
}

/// Returns `true` if a member of this version crashes when a client gives up a transaction that only reads, or may do so. 3.5.5 and
/// 3.5.6 crash in the log line about it.
pub(crate) fn is_crashed_by_reads(version: &str) -> bool {
    numbers(version).is_none_or(|numbers| numbers < [3, 5, 7])
}

/// Returns `true` if dlock does not work with this version.
#[cfg(feature = "admin")]
pub(crate) fn is_refused(version: &str) -> bool {
    numbers(version).is_some_and(|numbers| numbers < OLDEST)
}

/// The numbers in `3.5.13` or `3.6.0-rc.1`.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let number = |part: &str| {
        let end = part
            .find(|it: char| !it.is_ascii_digit())
            .unwrap_or(part.len());
        part[..end].parse().ok()
    };
    let mut parts = version.splitn(3, '.').map(number);
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlock_testkit::log;

    #[test]
    fn old_versions_are_refused_and_faulty_ones_are_known() {
        assert!(
            check("3.3.27", "a:2379")
                .unwrap_err()
                .to_string()
                .contains("etcd 3.3.27")
        );
        for (version, is_faulty) in [
            ("3.4.23", true),
            ("3.4.31", false),
            ("3.5.1", true),
            ("3.5.12", true),
            ("3.5.13", false),
            ("3.6.0-rc.1", false),
            ("3.10.0", false),
            ("4.0.0", false),
        ] {
            assert_eq!(check(version, "a:2379"), Ok(()));
            assert_eq!(fixed_in(version).is_some(), is_faulty, "{version}");
        }
        assert_eq!(check("unknown", "a:2379"), Ok(()));
        for (version, is_crashed) in [
            ("3.4.31", true),
            ("3.5.6", true),
            ("3.5.7", false),
            ("3.6.0", false),
            ("unknown", true),
        ] {
            assert_eq!(is_crashed_by_reads(version), is_crashed, "{version}");
        }
        for (version, is_torn) in [
            ("3.4.31", false),
            ("3.5.0", true),
            ("3.5.2", true),
            ("3.5.3", false),
            ("unknown", false),
        ] {
            assert_eq!(is_torn_by_kills(version), is_torn, "{version}");
        }
    }

    #[test]
    fn a_version_with_faults_is_in_the_log_with_its_successors() {
        const FAULTS: &str =
            "this version of etcd can revoke leases that are alive, and lose events of watches; ";
        log::begin();
        for (version, advice) in [
            (
                "3.4.30",
                Some("update it to 3.4.31 or later, or better to 3.5.13 or later"),
            ),
            ("3.4.31", None),
            (
                "3.5.2",
                Some(
                    "its members can also disagree after one was killed; update it to 3.5.13 or later",
                ),
            ),
            ("3.5.12", Some("update it to 3.5.13 or later")),
            ("3.5.13", None),
            ("3.6.0", None),
        ] {
            let member = format!("member-{version}:2379");
            assert_eq!(check(version, &member), Ok(()));
            let lines = log::with(&member);
            assert_eq!(lines.len(), usize::from(advice.is_some()), "{lines:?}");
            if let Some(advice) = advice {
                let start = format!("WARN {FAULTS}{advice} ");
                assert!(lines[0].starts_with(&start), "{lines:?}");
                assert!(lines[0].contains(version), "{lines:?}");
            }
        }
    }

    #[test]
    fn a_version_that_is_too_old_is_named_with_its_member() {
        for version in ["3.3.27", "2.4.9", "3.0.0"] {
            let error = check(version, "a:2379").unwrap_err();
            let text = format!("`a:2379` is etcd {version}; dlock needs 3.4 or later");
            assert_eq!(error.to_string(), text);
            assert_eq!(error.kind(), StoreErrorKind::Unsupported);
            assert!(error.has_no_effect(), "no request was sent");
        }
        for (version, numbers) in [
            ("3.4.0", Some([3, 4, 0])),
            ("3.6.0-rc.1", Some([3, 6, 0])),
            ("3.5", None),
            ("3.x.1", None),
            ("", None),
        ] {
            assert_eq!(super::numbers(version), numbers, "{version}");
        }
        #[cfg(feature = "admin")]
        for (version, is_expected) in [("3.3.27", true), ("3.4.0", false), ("unknown", false)] {
            assert_eq!(is_refused(version), is_expected, "{version}");
        }
    }
}
