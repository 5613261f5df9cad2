//! Names the permissions that the user lacks, as the report of a server has them.

use super::finding::{Finding, Severity, Topic};
use crate::model::{Denied, ServerReport};

/// Judges the permissions that a server's report names. Returns no finding if it names none: whether the user has all of them
/// is for the store to say.
///
/// ```
/// use dlock::admin::{Denied, ServerReport, doctor::permissions};
///
/// let mut report = ServerReport::new("ram://localhost");
/// report.denied.push(Denied::new("grant write", "acquiring locks", true));
/// assert_eq!(permissions(&report)[0].advice.as_deref(), Some("grant write"));
/// ```
#[must_use]
pub fn permissions(server: &ServerReport) -> Vec<Finding> {
    lacking(
        server,
        "the user cannot lock without some permissions",
        (
            Severity::Note,
            "the user lacks permissions that operators need",
        ),
    )
}

/// Judges the permissions on what a store calls its `keys`: that to write, which locks need, and that to read, which operators
/// need. `reads` says that the user may read them.
#[must_use]
pub fn permissions_on(server: &ServerReport, keys: &str, reads: bool) -> Vec<Finding> {
    let mut findings = lacking(
        server,
        &format!("the user may not write the {keys} of locks"),
        (
            Severity::Risk,
            &format!("the user may not read the {keys} of locks"),
        ),
    );
    if findings.is_empty() && reads {
        let what = "the user has all permissions that locks and operators need";
        findings.push(Finding::ok(Topic::Permissions, what));
    }
    findings
}

fn lacking(
    server: &ServerReport,
    required: &str,
    (severity, useful): (Severity, &str),
) -> Vec<Finding> {
    let rest =
        ". Users that only inspect locks do not need it: suppress this with --accept permissions";
    let parts = [
        (true, Severity::Broken, required, rest),
        (false, severity, useful, ""),
    ];
    let found = parts
        .into_iter()
        .filter_map(|(is_required, severity, what, rest)| {
            let of_part = |it: &&Denied| it.is_required == is_required;
            let missing: Vec<_> = server.denied.iter().filter(of_part).collect();
            let rules: Vec<_> = missing.iter().map(|it| it.rule.as_str()).collect();
            let purposes: Vec<_> = missing.iter().map(|it| it.purpose.as_str()).collect();
            (!missing.is_empty()).then(|| {
                Finding::new(severity, Topic::Permissions, what)
                    .why(format!("it is needed for {}{rest}", purposes.join(", ")))
                    .advice(rules.join("; "))
            })
        });
    found.collect()
}
