//! `dlock doctor`: checks the configuration and the state of the servers.

mod report;

use std::{
    env,
    io::{IsTerminal, stdout},
    time::Duration,
};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use dlock::{
    ConnectError, MAX_TTL, MIN_TTL,
    admin::{
        Deployment, Inspect,
        doctor::{
            facts::{Arrangement, Facts, LockFacts, ServerFacts},
            finding::{Finding, Known},
            judge,
        },
    },
};

use self::report::Page;
use crate::{
    connect::Product,
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
    let facts = examine(global, args).await?;
    let mut findings = judge(&facts);
    for finding in &mut findings {
        finding.accept(&args.accept);
    }
    if global.json {
        output::document(&report::json(&facts, &findings))?;
    } else {
        output::text(&report::text(&facts, &findings, page(global)))?;
    }
    Ok(verdict(&facts, &findings))
}

/// Returns what the URL and the options say about the servers.
pub(crate) fn of_options(global: &Global) -> Result<Facts, Failure> {
    let mut facts = Facts {
        raw_keys: global.raw_keys,
        ..Facts::unknown()
    };
    if matches!(global.product(), Product::Etcd | Product::ZooKeeper) {
        facts.layout = Arrangement::Ensemble;
    }
    if global.product() == Product::Redis {
        let deployment = Deployment::of(&global.config())?;
        facts.layout = deployment.layout.into();
        facts.min_replicas = deployment.min_replicas;
        facts.sentinels = deployment.servers;
        // A client certificate can be the login.
        let has_certificate = global.url.contains("cert=");
        facts.is_open = deployment.user.is_none() && global.login.is_none() && !has_certificate;
        facts.user = deployment.user.unwrap_or_else(user_of_environment);
    }
    Ok(facts)
}

async fn examine(global: &Global, args: &DoctorArgs) -> Result<Facts, Failure> {
    let mut facts = Facts {
        ttl: args.ttl,
        ..of_options(global)?
    };
    match global.examiner().await? {
        Ok(inspector) => {
            facts.add_reports(inspector.servers().await);
            facts.locks = locks(global, args, &*inspector).await;
        }
        // A server that is unavailable or refuses the login is a finding, like any other.
        Err(ConnectError::Unavailable { url, reason }) => {
            let server = ServerFacts {
                server: url,
                ..ServerFacts::default()
            };
            facts.servers.push(server.failed(&reason));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(facts)
}

/// The user for a URL without a login.
fn user_of_environment() -> String {
    let named = env::var("DLOCK_USER").ok().filter(|it| !it.is_empty());
    named.unwrap_or_else(|| "default".to_owned())
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

fn verdict(facts: &Facts, findings: &[Finding]) -> Exit {
    let silent = facts.servers.iter().filter(|it| it.is_silent).count();
    let all = facts.servers.len();
    let too_many = match facts.layout {
        Arrangement::Quorum => all - silent <= all / 2,
        Arrangement::Ensemble => !facts.servers.iter().any(ServerFacts::has_majority),
        _ => silent == all,
    };
    if too_many {
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
    use dlock::admin::doctor::finding::{Severity, Topic};

    use super::*;

    fn facts(layout: Arrangement, silent: &[bool]) -> Facts {
        let servers = silent.iter().map(|&is_silent| ServerFacts {
            is_silent,
            ..ServerFacts::default()
        });
        Facts {
            layout,
            ttl: Duration::from_secs(30),
            min_replicas: 0,
            sentinels: 0,
            user: String::new(),
            is_open: false,
            raw_keys: false,
            servers: servers.collect(),
            locks: Ok(LockFacts::default()),
        }
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst() {
        let up = facts(Arrangement::Single, &[false]);
        let of = |findings: &[Finding]| verdict(&up, findings);
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
        for (layout, silent, exit) in [
            (Arrangement::Single, &[true][..], Exit::Unavailable),
            (Arrangement::Quorum, &[true, false, false], Exit::Success),
            (Arrangement::Quorum, &[true, true, false], Exit::Unavailable),
            (Arrangement::Quorum, &[true, false], Exit::Unavailable),
            (Arrangement::Sentinel, &[true, false], Exit::Success),
            (
                Arrangement::Ensemble,
                &[true, true, true],
                Exit::Unavailable,
            ),
            (Arrangement::Cluster, &[true, true], Exit::Unavailable),
        ] {
            assert_eq!(
                verdict(&facts(layout, silent), &[]),
                exit,
                "{layout:?} {silent:?}"
            );
        }
    }

    #[test]
    fn a_ttl_is_one_that_locks_can_have() {
        assert_eq!(ttl("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["0s", "99ms", "25h", "5", ""] {
            assert!(ttl(text).is_err(), "{text}");
        }
    }
}
