//! `dlock doctor`: checks the configuration and the state of the servers.

mod report;

use std::{
    io::{IsTerminal, stdout},
    sync::Arc,
    time::Duration,
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use dlock::{ConnectError, MAX_TTL, MIN_TTL};
use dlock_admin::{
    Inspect, ServerReport,
    doctor::{AnyStore, Facts, Finding, Judge, Known, LockFacts, findings},
};

use self::report::Page;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output,
    progress::{SLOW, with_progress},
};

/// The width of lines without a terminal, and the greatest width on a terminal.
const WIDTH: usize = 110;

/// Checks the configuration and the state of the servers
///
/// The exit code is 0 if no finding is worse than a note. It is 1 if a finding is a risk,
/// broken or unknown and was not accepted: checks that could not run count as failures.
/// It is 69 if no server answers, or no majority of a quorum or an ensemble.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// The shortest TTL of your locks, with which several checks
    /// compare
    #[arg(long, verbatim_doc_comment, value_name = "DURATION", default_value = "30s", value_parser = ttl)]
    ttl: Duration,
    /// Topics whose risks you accept, and `unknown` for all
    /// checks that could not run; accepted findings are shown
    /// but do not change the exit code
    #[arg(long, verbatim_doc_comment, value_name = "TOPIC", value_delimiter = ',', value_parser = known())]
    accept: Vec<Known>,
    /// Scans the keys at full speed instead of using at most 5 %
    /// of each server's time
    #[arg(long, verbatim_doc_comment)]
    fast: bool,
}

pub(crate) async fn run(global: &Global, args: &DoctorArgs) -> Result<Exit, Failure> {
    let (judge, facts) = examine(global, args).await?;
    let mut findings = findings(&*judge, &facts);
    for finding in &mut findings {
        finding.accept(&args.accept);
    }
    if global.json {
        output::document(&report::json(&*judge, &facts, &findings))?;
    } else {
        output::text(&report::text(&*judge, &facts, &findings, page(global)))?;
    }
    Ok(verdict(&*judge, &facts, &findings))
}

async fn examine(global: &Global, args: &DoctorArgs) -> Result<(Arc<dyn Judge>, Facts), Failure> {
    let configured = global.judge()?;
    let mut facts = Facts::unknown();
    facts.ttl = args.ttl;
    let judge = match global.examiner().await? {
        Ok(inspector) => {
            facts.servers = inspector.servers().await;
            facts.locks = locks(global, args, &*inspector).await;
            configured.unwrap_or_else(|| inspector.judge())
        }
        // A server that is unavailable or refuses the login is a finding, like any other.
        Err(ConnectError::Unavailable { url, reason }) => {
            let mut server = ServerReport::new(url);
            server.failure = Some(reason);
            facts.servers.push(server);
            configured.unwrap_or_else(|| Arc::new(AnyStore))
        }
        Err(error) => return Err(error.into()),
    };
    Ok((judge, facts))
}

async fn locks(
    global: &Global,
    args: &DoctorArgs,
    inspector: &dyn Inspect,
) -> Result<LockFacts, String> {
    if args.fast {
        inspector.lift_limit();
    }
    let advice = if args.fast { "" } else { SLOW };
    let look = with_progress(global, inspector, advice, inspector.overview());
    let seen = look.await.map_err(|it| it.to_string())?;
    Ok(LockFacts::of(&seen))
}

fn verdict(judge: &dyn Judge, facts: &Facts, findings: &[Finding]) -> Exit {
    if !judge.is_available(facts) {
        Exit::Unavailable
    } else if findings.iter().any(Finding::counts) {
        Exit::Negative
    } else {
        Exit::Success
    }
}

fn page(global: &Global) -> Page {
    let is_terminal = stdout().is_terminal();
    let size = ratatui::crossterm::terminal::size().ok();
    let width = size.map(|(columns, _)| usize::from(columns));
    Page {
        width: width
            .filter(|_| is_terminal)
            .map_or(WIDTH, |it| it.min(WIDTH)),
        colours: global.has_color(&stdout()),
    }
}

fn known() -> impl TypedValueParser<Value = Known> {
    PossibleValuesParser::new(Known::names()).try_map(|name| Known::named(&name))
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        Ok(ttl)
    } else {
        Err(format!("a TTL must be from {MIN_TTL:?} to {MAX_TTL:?}"))
    }
}

#[cfg(test)]
mod tests {
    use dlock::{StoreError, StoreErrorKind, store::redis::RedisConfig};
    use dlock_admin::{
        RedisJudge,
        doctor::{Severity, Topic},
    };

    use super::*;

    fn facts(silent: &[bool]) -> Facts {
        let mut facts = Facts::unknown();
        facts.servers = silent
            .iter()
            .map(|&is_silent| {
                let mut report = ServerReport::new("a");
                let error = StoreError::new(StoreErrorKind::Unreachable, "no route");
                report.failure = is_silent.then_some(error);
                report
            })
            .collect();
        facts
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst() {
        let up = facts(&[false]);
        let of = |findings: &[Finding]| verdict(&AnyStore, &up, findings);
        let (note, risk) = (Finding::note, Finding::risk);
        assert_eq!(of(&[note(Topic::Load, "")]), Exit::Success);
        assert_eq!(of(&[Finding::unknown(Topic::Load, "")]), Exit::Negative);
        assert_eq!(
            of(&[note(Topic::Load, ""), risk(Topic::Load, "")]),
            Exit::Negative
        );
    }

    #[test]
    fn only_known_risks_are_accepted() {
        use Severity::{Broken, Risk, Unknown};
        let (load, permissions) = (Topic::Load, Topic::Permissions);
        for (severity, topic, known, is_accepted) in [
            (Risk, load, &["load"][..], true),
            (Risk, load, &["locks", "unknown"], false),
            (Unknown, load, &["load"], true),
            (Unknown, load, &["unknown"], true),
            (Unknown, load, &["locks"], false),
            (Broken, load, &["load", "unknown"], false),
            (Broken, permissions, &["permissions"], true),
            (Broken, permissions, &["unknown"], false),
        ] {
            let known: Vec<_> = known.iter().map(|it| Known::named(it).unwrap()).collect();
            let mut finding = Finding::new(severity, topic, "");
            finding.accept(&known);
            assert_eq!(finding.counts(), !is_accepted, "{severity:?} {known:?}");
        }
        for name in Known::names() {
            assert!(Known::named(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_quorum_is_reached_as_long_as_a_majority_is() {
        let (single, quorum) = ("redis://a", "redlock://a,b,c");
        for (url, silent, exit) in [
            (single, &[true][..], Exit::Unavailable),
            (quorum, &[true, false, false], Exit::Success),
            (quorum, &[true, true, false], Exit::Unavailable),
            (quorum, &[true, false], Exit::Unavailable),
            ("redis-sentinel://a/b", &[true, false], Exit::Success),
            ("redis-cluster://a", &[true, true], Exit::Unavailable),
        ] {
            let judge = RedisJudge::of(&RedisConfig::new(url)).unwrap();
            let told = verdict(&judge, &facts(silent), &[]);
            assert_eq!(told, exit, "{url} {silent:?}");
        }
        let silent = facts(&[true, true, true]);
        assert_eq!(verdict(&AnyStore, &silent, &[]), Exit::Unavailable);
    }

    #[test]
    fn a_ttl_is_one_that_locks_can_have() {
        assert_eq!(ttl("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["0s", "99ms", "25h", "5", ""] {
            assert!(ttl(text).is_err(), "{text}");
        }
    }
}
