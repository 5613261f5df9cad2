//! What is said of locks by `SET NX PX`, with each flaw and without one.

use super::{ENDS, Expiring, Flaw, MOST, MUTEX, Release};
use crate::check::Check;

pub(in crate::historical) fn checks(is_large: bool) -> Vec<Check> {
    let with = |clients, flaw| Expiring {
        clients,
        flaw,
        release: Release::Script,
    };
    let flawed = [
        ("SETNX, then EXPIRE", 2, Flaw::ExpiresLater, ENDS, 3),
        ("SET NX PX, any DEL", 3, Flaw::DeletesAnybodys, MUTEX, 14),
        (
            "SET NX PX, GET then DEL",
            3,
            Flaw::ComparesThenDeletes,
            MUTEX,
            15,
        ),
        (
            "SET NX PX, deadline from the answer",
            2,
            Flaw::CountsFromTheAnswer,
            MUTEX,
            9,
        ),
        (
            "SET NX PX, a retry finds its own",
            2,
            Flaw::FindsItsOwnAsItWas,
            MUTEX,
            12,
        ),
    ];
    let flawed = flawed
        .into_iter()
        .map(|(name, clients, flaw, property, after)| {
            let protocol = format!("{name}; {clients} clients");
            Check::fails(protocol, with(clients, Some(flaw)), property, after)
        });
    let mut checks: Vec<_> = flawed.collect();
    let clients = if is_large { MOST } else { 3 };
    let right = with(clients, None);
    let name = format!("SET NX PX, compare and DEL; {clients} clients");
    let examples = [
        ("a lock is held that has ended", 6),
        ("all have had the lock", 15),
    ];
    if !is_large {
        checks.extend(Check::happens(name.clone(), &right, examples));
    }
    checks.push(Check::holds(name, right, 10_900));
    checks.extend(watched(clients));
    checks
}

/// The release by `WATCH`, with and without each of its rules.
fn watched(clients: usize) -> Vec<Check> {
    let with = |clients, flaw, expiry_aborts| Expiring {
        clients,
        flaw,
        release: Release::Watch { expiry_aborts },
    };
    let flawed = [
        ("MULTI, DEL, EXEC without WATCH", Flaw::WatchesNothing, 15),
        ("WATCH without GET", Flaw::WatchesAnybodys, 15),
        ("WATCH after GET", Flaw::WatchesTooLate, 16),
        ("EXEC over another connection", Flaw::ExecutesElsewhere, 17),
    ];
    let flawed = flawed.map(|(name, flaw, after)| {
        let protocol = format!("SET NX PX, {name}; 3 clients");
        Check::fails(protocol, with(3, Some(flaw), true), MUTEX, after)
    });
    let right = [
        ("WATCH, GET, MULTI, DEL, EXEC", true, 21_900),
        ("the same before Redis 6.0.9", false, 22_400),
    ];
    let right = right.map(|(name, expiry_aborts, at_least)| {
        let protocol = format!("SET NX PX, {name}; {clients} clients");
        Check::holds(protocol, with(clients, None, expiry_aborts), at_least)
    });
    flawed.into_iter().chain(right).collect()
}
