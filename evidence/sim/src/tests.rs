//! The short form of the simulation, and whether it would find anything.

use std::{
    io::{self, Write as _},
    thread,
};

use dlock_history::Violation;

use super::*;

/// How many runs there are each time.
const RUNS: u64 = 1_200;

#[test]
fn more_than_a_thousand_worlds_keep_their_promises() {
    let (counts, reports) = run_many(0..RUNS, Flaw::None, 10);
    // Shown although the test passes, for readers of the log.
    writeln!(io::stdout(), "{counts}").expect("there is an output");
    let found = reports.iter().flat_map(|report| {
        let finding = |it| format!("broken promise: seed {}: {it}\n", report.seed);
        report.findings.iter().map(finding)
    });
    let found: String = found.collect();
    assert!(
        found.is_empty(),
        "{found}again by `cargo xtask sim --seed SEED`"
    );
    // A run without sections judges nothing.
    assert!(counts.exclusive * 3 > counts.runs * 2, "{counts}");
    assert!(counts.sections > 10 * RUNS, "{counts}");
    for event in [
        "amnesia",
        "amnesia of one that stays away",
        "answer lost",
        "answer swallowed",
        "blocked",
        "body panicked",
        "call busy",
        "call done",
        "call dropped",
        "call lost",
        "clock set back",
        "clock set forward",
        "cut off",
        "doubled",
        "hint",
        "hint doubled",
        "hint lost",
        "in together",
        "kill",
        "lost",
        "lost with its connection",
        "poll late",
        "reconnection",
        "refused",
        "refused but done",
        "restart",
        "shutdown",
        "sleep",
        "standstill",
        "swallowed",
    ] {
        let count = counts.events.get(event).copied().unwrap_or(0);
        assert!(count > 20, "{event}: {count}");
    }
}

#[test]
fn a_seed_is_a_run_whatever_thread_it_has() {
    for seed in 0..40 {
        let first = run(seed, Flaw::None, true);
        let again = thread::spawn(move || run(seed, Flaw::None, true));
        let again = again.join().expect("a run does not panic");
        assert!(first.log.lines().count() > 100, "{}", first.log);
        let mut lines = first.log.lines().zip(again.log.lines());
        let other = lines.find(|(first, again)| first != again);
        assert_eq!(other, None, "seed {seed}");
        assert_eq!(first.log.len(), again.log.len(), "seed {seed}");
    }
}

/// The kind of a finding, by which a flaw is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Overlap,
    TooMany,
    Token,
    Unfounded,
    Refused,
    Left,
    Stuck,
    Other,
}

fn kind(finding: &Finding) -> Kind {
    match finding {
        Finding::History(violation) => match **violation {
            Violation::Overlap(..) => Kind::Overlap,
            Violation::TooMany(..) => Kind::TooMany,
            Violation::TokenTwice(..)
            | Violation::TokenNotGreater(..)
            | Violation::TokensDiffer(..) => Kind::Token,
            _ => Kind::Other,
        },
        Finding::Unfounded(_) => Kind::Unfounded,
        Finding::Refused(_) => Kind::Refused,
        Finding::Left(_) => Kind::Left,
        Finding::Stuck(_) => Kind::Stuck,
        _ => Kind::Other,
    }
}

/// A judgement that cannot fail shows nothing: each of these flaws is found as itself, within so many runs.
#[test]
fn a_world_that_breaks_a_promise_is_found_out() {
    let flaws = [
        (Flaw::ReleasesWhosoever, 20, Kind::Overlap),
        (Flaw::RenewsWhosoever, 200, Kind::Unfounded),
        (Flaw::AskedAgainKeepsItsTime, 200, Kind::Unfounded),
        (Flaw::GrantsTwice, 20, Kind::Overlap),
        (Flaw::FencesFollowNoCounter, 20, Kind::Token),
        (Flaw::FencesFollowNoCounter, 20, Kind::Refused),
        (Flaw::HandsOnForASecond, 200, Kind::Unfounded),
        (Flaw::LastFenceIsTooLow, 400, Kind::Unfounded),
        (Flaw::RepeatsOldGrantsAsNew, 200, Kind::Unfounded),
        (Flaw::ForgetsReleases, 20, Kind::Left),
        (Flaw::RaisesNothing, 100, Kind::Token),
        (Flaw::FastClocks, 100, Kind::Unfounded),
        (Flaw::ForgetsSecretly, 20, Kind::Unfounded),
        (Flaw::DeniesWhatItDid, 100, Kind::Left),
        (Flaw::SplitBrain, 20, Kind::Overlap),
        (Flaw::AnswersForOthers, 100, Kind::Unfounded),
        (Flaw::AdmitsBesideSharers, 20, Kind::Overlap),
        (Flaw::CountsOnePermitTooMany, 20, Kind::TooMany),
        (Flaw::EachSharerHasItsFence, 20, Kind::Token),
        (Flaw::ReleasesAllSharers, 20, Kind::Unfounded),
        (Flaw::RevivesEndedSharers, 100, Kind::Token),
        (Flaw::GrantsOneWaiter, 20, Kind::Stuck),
        (Flaw::SharersOvertake, 100, Kind::Stuck),
        (Flaw::JoinsAreNotCounted, 400, Kind::Unfounded),
    ];
    for (flaw, within, wanted) in flaws {
        // Runs that have found something else do not end it.
        let is_found = (0..within).step_by(20).any(|from| {
            let (_, reports) = run_many(from..from + 20, flaw, 20);
            let mut findings = reports.iter().flat_map(|report| &report.findings);
            findings.any(|finding| kind(finding) == wanted)
        });
        assert!(
            is_found,
            "broken promise: the judge did not find {flaw:?} as {wanted:?} in {within} runs"
        );
    }
    let all = <Flaw as clap::ValueEnum>::value_variants();
    let is_tried = |it: &Flaw| *it == Flaw::None || flaws.iter().any(|(flaw, ..)| flaw == it);
    assert!(all.iter().all(is_tried), "each is tried");
}
