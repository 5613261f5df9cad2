//! Findings about servers together: their clocks, and the members of an ensemble.

use std::time::Duration;

use dlock_runtime::store::StoreErrorKind;

use super::{
    super::{EnsembleMember, Facts, Severity, Topic, clocks, ensemble},
    failure, told,
};
use crate::model::{ClockReading, ServerReport};

/// Servers whose clocks are ahead by so many microseconds, each ± 50 µs.
fn with_clocks(ahead_us: &[i64]) -> Facts {
    let mut facts = Facts::unknown();
    for (server, ahead_us) in ["a", "b", "c"].into_iter().zip(ahead_us) {
        let mut report = ServerReport::new(server);
        report.clock = Some(ClockReading::new(*ahead_us, Duration::from_micros(50)));
        facts.servers.push(report);
    }
    facts
}

#[test]
fn a_clock_is_wrong_only_by_more_than_its_reading_may_be() {
    use Severity::{Note, Ok};
    for (ahead_us, severity, what) in [
        (50, Ok, "agrees with"),
        (-50, Ok, "agrees with"),
        (51, Ok, "51 µs ahead of"),
        (-999, Ok, "999 µs behind"),
        (1_000, Ok, "1.0 ms ahead of"),
        (1_000_049, Ok, "1000.0 ms ahead of"),
        (1_000_050, Note, "1000.0 ms ahead of"),
        (-1_000_050, Note, "1000.0 ms behind"),
        (1_234_500, Note, "1234.5 ms ahead of"),
        (-12_000_000, Note, "12 s behind"),
    ] {
        let found = clocks(&with_clocks(&[ahead_us]));
        let what = format!("{what} this machine's clock, ± 50 µs");
        assert_eq!(told(&found), [(severity, &*what)]);
        assert_eq!(found[0].server.as_deref(), Some("a"));
        assert_eq!(found[0].advice.is_some(), severity == Note);
    }
    let mut facts = with_clocks(&[0]);
    facts.servers[0].failure = Some(failure(StoreErrorKind::Unreachable));
    assert!(clocks(&facts).is_empty(), "it has not answered");
    facts.servers[0].failure = None;
    facts.servers[0].clock = None;
    assert!(clocks(&facts).is_empty(), "it has not told");
}

#[test]
fn the_two_clocks_that_differ_most_are_compared() {
    for (ahead_us, severity, what) in [
        (&[0, 0][..], Severity::Ok, "b is 0 µs ahead of a"),
        (
            &[500_100, 0, -500_000],
            Severity::Ok,
            "a is 1000.1 ms ahead of c",
        ),
        (
            &[-500_000, 500_101, 0],
            Severity::Note,
            "b is 1000.1 ms ahead of a",
        ),
    ] {
        let found = clocks(&with_clocks(ahead_us));
        assert_eq!(found.len(), ahead_us.len() + 1);
        let last = found.last().unwrap();
        assert_eq!((last.severity, &*last.what), (severity, what));
        assert_eq!(last.server, None);
    }
}

/// Members of an ensemble, of which the last ones do not answer.
fn members_of(count: usize, down: usize) -> Facts {
    let mut facts = Facts::unknown();
    for number in 1..=count {
        let mut report = ServerReport::new(format!("http://host-{number}:2379"));
        if number > count - down {
            report.failure = Some(failure(StoreErrorKind::Unreachable));
        }
        facts.servers.push(report);
    }
    facts
}

/// The answers of these members about themselves. `all` are the ids of the ensemble.
fn described<'a>(facts: &'a Facts, all: &'a str) -> Vec<EnsembleMember<'a>> {
    let numbered = facts.servers.iter().zip(["1", "2", "3", "4", "5"]);
    let members = numbered.map(|(report, id)| {
        let mut member = EnsembleMember::of(report);
        if report.answers() {
            member.has_leader = Some(true);
            (member.id, member.ensemble) = (Some(id), Some("e"));
            member.members = Some(all);
        }
        member
    });
    members.collect()
}

#[test]
fn an_ensemble_has_an_odd_number_of_members_and_a_majority() {
    for (count, down, all, expected) in [
        (
            1,
            0,
            "1",
            "note: 1 member; ok: 1 of 1 member in the URL answer",
        ),
        (
            3,
            0,
            "1,2,3",
            "ok: 3 members; ok: 3 of 3 members in the URL answer",
        ),
        (
            2,
            0,
            "1,2",
            "note: 2 members; ok: 2 of 2 members in the URL answer",
        ),
        (
            3,
            1,
            "1,2,3",
            "ok: 3 members; risk: 2 of 3 members in the URL answer",
        ),
        (
            3,
            3,
            "",
            "ok: 3 members; risk: 0 of 3 members in the URL answer",
        ),
        (
            2,
            0,
            "1,2,3",
            "ok: 3 members; ok: 2 of 2 members in the URL answer; \
             note: the URL does not name 1 member",
        ),
        // The one that is down may be any of the others.
        (
            2,
            1,
            "1,2,3",
            "ok: 3 members; risk: 1 of 2 members in the URL answer",
        ),
    ] {
        let facts = members_of(count, down);
        let found = ensemble(&facts, &described(&facts, all));
        let lines = found
            .iter()
            .map(|it| format!("{}: {}", it.severity.name(), it.what));
        assert_eq!(lines.collect::<Vec<_>>().join("; "), expected);
        assert!(found.iter().all(|it| it.topic == Topic::Quorum));
    }
}

#[test]
fn an_ensemble_without_a_spare_member_is_unavailable_after_one_more_failure() {
    let why = |count, down, all: &str, place: usize| {
        let facts = members_of(count, down);
        let mut found = ensemble(&facts, &described(&facts, all));
        found.swap_remove(place).why.unwrap_or_default()
    };
    assert_eq!(
        why(1, 0, "1", 0),
        "locks are `Unavailable` while it is down"
    );
    assert_eq!(
        why(2, 0, "1,2", 0),
        "it tolerates no more failures than 1 member"
    );
    assert_eq!(
        why(4, 0, "1,2,3,4", 0),
        "it tolerates no more failures than 3 members"
    );
    for (count, down, all) in [(3, 1, "1,2,3"), (4, 1, "1,2,3,4"), (5, 2, "1,2,3,4,5")] {
        assert_eq!(
            why(count, down, all, 1),
            "if one more member fails, locks are `Unavailable`"
        );
    }
    assert_eq!(
        why(5, 1, "1,2,3,4,5", 1),
        "if more than 1 further members fail, locks are `Unavailable`"
    );
}

#[test]
fn members_are_of_one_ensemble_and_each_is_named_once() {
    use Severity::{Broken, Note, Ok, Risk};
    let facts = members_of(3, 0);
    let (three, answer) = ("3 members", "3 of 3 members in the URL answer");
    let mut members = described(&facts, "1,2,3");
    members[1].ensemble = Some("f");
    assert_eq!(
        told(&ensemble(&facts, &members)),
        [
            (Ok, three),
            (Ok, answer),
            (Broken, "the URL names members of 2 ensembles"),
        ]
    );
    let mut members = described(&facts, "1,2,3");
    members[2].id = Some("2");
    assert_eq!(
        told(&ensemble(&facts, &members)),
        [
            (Ok, three),
            (Ok, answer),
            (
                Note,
                "http://host-2:2379 and http://host-3:2379 are one member"
            ),
            (Note, "the URL does not name 1 member"),
        ]
    );
    let mut members = described(&facts, "1,2,3");
    members[0].has_leader = None;
    members[1].has_leader = Some(false);
    let found = ensemble(&facts, &members);
    assert_eq!(
        told(&found),
        [(Ok, three), (Ok, answer)],
        "one has a leader"
    );
    members[2].has_leader = Some(false);
    let none = "3 of 3 members in the URL answer, and none has a leader";
    assert_eq!(
        told(&ensemble(&facts, &members)),
        [(Ok, three), (Broken, none)]
    );
    let mut near = facts.clone();
    for (report, server) in
        near.servers
            .iter_mut()
            .zip(["http://[::1]:1", "http://[::1]:2", "http://b:1"])
    {
        server.clone_into(&mut report.server);
    }
    assert_eq!(
        told(&ensemble(&near, &described(&near, "1,2,3"))),
        [(Ok, three), (Ok, answer), (Risk, "3 servers on 2 hosts")]
    );
}

#[test]
fn a_member_decides_unless_it_is_silent_or_without_a_leader() {
    let mut report = ServerReport::new("a");
    for (kind, has_leader, decides) in [
        (None, None, true),
        (None, Some(true), true),
        (None, Some(false), false),
        (Some(StoreErrorKind::Unreachable), None, false),
        (Some(StoreErrorKind::TimedOut), None, false),
        (Some(StoreErrorKind::Disconnected), Some(true), false),
        // It asks for another login.
        (Some(StoreErrorKind::Unauthenticated), None, true),
    ] {
        report.failure = kind.map(failure);
        let mut member = EnsembleMember::of(&report);
        member.has_leader = has_leader;
        assert_eq!(member.may_decide(), decides, "{kind:?} {has_leader:?}");
        assert_eq!(member.answers, kind.is_none());
    }
}
