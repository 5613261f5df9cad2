//! The conclusions of the history from pictures whose reading took time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_admin::{HolderInfo, LockInfo, Overview, WaiterInfo};
use dlock_runtime::{
    clock::Moment,
    random::SystemRandom,
    store::{ClientId, LockMode, OwnerId},
};
use serde_json::{Value, json};

use super::History;
use crate::{moment, picture::Draft};

/// The time of the first picture.
const START: u64 = 1_700_000_000_000;

fn at(ms: u64) -> Value {
    moment::text(START + ms).into()
}

fn owner(number: u64) -> OwnerId {
    static CLIENT: std::sync::LazyLock<ClientId> =
        std::sync::LazyLock::new(|| ClientId::new(&SystemRandom));
    OwnerId::new(*CLIENT, number)
}

/// Returns a lock that `number` holds since 0, for another `ttl` milliseconds.
fn lock(key: &str, number: u64, ttl: u64) -> LockInfo {
    let mut lock = LockInfo::new(key);
    lock.mode = Some(LockMode::Exclusive);
    let mut holder = HolderInfo::new(Some(owner(number)), number, SystemTime::now());
    holder.since = Some(UNIX_EPOCH + Duration::from_millis(START));
    holder.ttl = Some(Duration::from_millis(ttl));
    lock.add_holder(holder);
    lock
}

fn awaited_by(mut lock: LockInfo, number: u64) -> LockInfo {
    lock.add_waiter(WaiterInfo::new(owner(number), LockMode::Exclusive));
    lock
}

fn draft(ms: u64, locks: &[LockInfo]) -> Draft {
    let mut draft = Draft::like(None);
    for lock in locks {
        draft.add(lock, START + ms);
    }
    draft
}

/// Shows a picture whose reading has ended at `ms`.
fn see(past: &mut History, ms: u64, took: u64, locks: &[LockInfo]) {
    let took = Duration::from_millis(took);
    let picture = draft(ms, locks).finish(Overview::default(), START + ms, took);
    past.see(picture, false);
}

fn told(past: &History, ms: u64) -> Value {
    serde_json::to_value(past.view("k", START + ms, false)).unwrap()
}

/// Returns the end of each lease or wait, with its time.
fn ends(past: &History, what: &str, ms: u64) -> Vec<(Value, Value)> {
    let told = told(past, ms);
    let all = told[what].as_array().unwrap().iter();
    all.map(|it| (it["to"].clone(), it["end"].clone()))
        .collect()
}

#[test]
fn a_lease_that_was_forced_after_its_row_was_read_was_forced() {
    let mut past = History::default();
    see(&mut past, 0, 0, &[lock("k", 1, 30_000)]);
    past.forced("k", Some(owner(1)), 1, START + 2500, "op".into());
    // Its reading began before the release.
    see(&mut past, 3000, 1000, &[lock("k", 1, 27_000)]);
    see(&mut past, 4000, 500, &[]);
    assert_eq!(ends(&past, "holds", 5000), [(at(2500), json!("forced"))]);
    // The next picture began later: it would have shown it.
    assert!(past.forced.is_empty());
}

#[test]
fn a_waiter_that_was_granted_the_lock_after_its_row_was_read_has_not_left() {
    let mut past = History::default();
    see(&mut past, 0, 0, &[awaited_by(lock("k", 1, 30_000), 2)]);
    past.heard("k", owner(2), 2, START + 2500);
    see(
        &mut past,
        3000,
        1000,
        &[awaited_by(lock("k", 1, 27_000), 2)],
    );
    see(&mut past, 4000, 500, &[]);
    assert_eq!(ends(&past, "waits", 5000), [(at(2500), json!("granted"))]);
    assert_eq!(ends(&past, "holds", 5000)[0], (at(2500), json!("granted")));
    assert!(past.granted.is_empty());
}

#[test]
fn a_lease_that_may_have_expired_while_others_were_read_was_not_released() {
    let mut past = History::default();
    // It was read at 0 or up to 4 s later, so it expires between 9 s and 13 s.
    see(&mut past, 4000, 4000, &[lock("k", 1, 9000)]);
    see(&mut past, 10_000, 4000, &[]);
    assert_eq!(
        ends(&past, "holds", 11_000),
        [(at(10_000), json!("unknown"))]
    );
    let mut past = History::default();
    see(&mut past, 4000, 4000, &[lock("k", 1, 9000)]);
    see(&mut past, 8500, 4000, &[]);
    assert_eq!(
        ends(&past, "holds", 11_000),
        [(at(8500), json!("released"))]
    );
}

#[test]
fn unequal_times_of_readings_are_no_renewals() {
    let mut past = History::default();
    let renewals = |past: &History, ms| told(past, ms)["holds"][0]["renewed"].clone();
    see(&mut past, 1000, 1000, &[lock("k", 1, 30_000)]);
    // It was read at the beginning.
    see(&mut past, 4000, 2000, &[lock("k", 1, 29_000)]);
    assert_eq!(renewals(&past, 5000), json!([]));
    // The parts of a reading have times of their own.
    let mut later = draft(8000, &[lock("a", 9, 30_000)]);
    later.add(&lock("k", 1, 29_500), START + 8100);
    let took = Duration::from_secs(4);
    past.see(
        later.finish(Overview::default(), START + 12_000, took),
        false,
    );
    assert_eq!(renewals(&past, 13_000), json!([at(7600)]));
}

#[test]
fn renewals_of_many_locks_make_nothing_be_forgotten() {
    let mut past = History::default();
    past.watch("k", START);
    for second in 0..10 {
        // Each reading shows that all were renewed.
        let many = (0..9000).map(|it| lock(&format!("n:{it}"), it + 10, 30_000));
        let mut many: Vec<_> = many.collect();
        if second < 3 {
            many.push(lock("k", 1, 30_000));
        }
        see(&mut past, second * 1000, 0, &many);
    }
    let told = told(&past, 9500);
    assert_eq!(told["gaps"], json!([{"from": told["from"], "to": at(0)}]));
    let hold = &told["holds"][0];
    assert_eq!((&hold["to"], &hold["end"]), (&at(3000), &json!("released")));
    assert_eq!(
        hold["renewed"],
        json!([at(1000), at(2000)]),
        "it is watched"
    );
}

#[test]
fn only_the_latest_renewals_are_shown() {
    let mut past = History::default();
    past.watch("k", START);
    for second in 0..1300 {
        see(&mut past, second * 1000, 0, &[lock("k", 1, 30_000)]);
    }
    let renewed = told(&past, 1_299_000)["holds"][0]["renewed"].clone();
    let renewed = renewed.as_array().unwrap();
    assert_eq!(renewed.len(), 500);
    assert_eq!(renewed[499], at(1_299_000));
    let later = told(&past, 1_299_000 + 400_000);
    let renewed = later["holds"][0]["renewed"].as_array().unwrap();
    assert_eq!(
        renewed.len(),
        201,
        "the others are before the beginning of the window"
    );
}

#[test]
fn a_suspended_machine_has_seen_nothing() {
    let suspended: [fn(&mut Moment, &mut SystemTime); 2] = [
        |moment, _| moment.boot += Duration::from_secs(300),
        // A virtual machine was paused.
        |_, day| *day += Duration::from_secs(300),
    ];
    for suspend in suspended {
        let mut past = History::every(Duration::from_secs(2));
        see(&mut past, 0, 0, &[awaited_by(lock("k", 1, 600_000), 2)]);
        let mut later =
            draft(300_000, &[]).finish(Overview::default(), START + 300_000, Duration::ZERO);
        suspend(&mut later.at, &mut later.time_of_day);
        past.see(later, false);
        assert_eq!(ends(&past, "holds", 301_000), [(at(0), json!("unknown"))]);
        assert_eq!(ends(&past, "waits", 301_000), [(at(0), json!("unknown"))]);
        assert_eq!(told(&past, 301_000)["gaps"][0]["to"], at(300_000));
    }
}

#[test]
fn while_the_store_is_away_nothing_is_held_now() {
    let mut past = History::default();
    see(&mut past, 0, 0, &[awaited_by(lock("k", 1, 30_000), 2)]);
    let away = serde_json::to_value(past.view("k", START + 9000, true)).unwrap();
    for what in ["holds", "waits"] {
        assert_eq!(away[what][0]["to"], at(0));
        assert_eq!(away[what][0]["end"], "unknown");
    }
    assert_eq!(ends(&past, "holds", 9000), [(Value::Null, Value::Null)]);
}

#[test]
fn a_holder_that_is_not_listed_any_more_may_hold_still() {
    let shared = |numbers: &[u64], count| {
        let mut lock = LockInfo::new("k");
        lock.mode = Some(LockMode::Shared);
        for number in numbers {
            lock.add_holder(HolderInfo::new(Some(owner(*number)), 7, UNIX_EPOCH));
        }
        lock.holder_count = count;
        lock
    };
    for (count, end) in [(3, "unknown"), (2, "released")] {
        let mut past = History::default();
        see(&mut past, 0, 0, &[shared(&[1, 3], 2)]);
        see(&mut past, 1000, 0, &[shared(&[2, 3], count)]);
        let all = told(&past, 2000)["holds"].clone();
        let all = all.as_array().unwrap().iter();
        let gone: Vec<_> = all
            .filter(|it| it["handle"] == owner(1).handle().to_string())
            .collect();
        assert_eq!(gone[0]["end"], end);
    }
}

#[test]
fn third_party_leases_in_a_row_are_several() {
    let foreign = |mark: u64| {
        let mut lock = LockInfo::new("k");
        let mut holder = HolderInfo::new(None, 0, SystemTime::now());
        holder.mark = mark;
        lock.add_holder(holder);
        lock
    };
    let mut past = History::default();
    see(&mut past, 0, 0, &[foreign(1)]);
    see(&mut past, 1000, 0, &[foreign(1)]);
    past.forced("k", None, 0, START + 1500, "op".into());
    see(&mut past, 2000, 1000, &[foreign(2)]);
    see(&mut past, 3000, 0, &[]);
    let ends = ends(&past, "holds", 4000);
    assert_eq!(
        ends,
        [(at(1500), json!("forced")), (at(3000), json!("released"))]
    );
}

#[test]
fn grants_of_more_locks_than_are_remembered_are_a_gap() {
    let mut past = History::default();
    see(&mut past, 0, 0, &[awaited_by(lock("k", 1, 30_000), 2)]);
    for number in 0..20_000 {
        past.heard(
            &format!("n:{number}"),
            owner(number),
            number + 1,
            START + 100,
        );
    }
    past.heard("k", owner(3), 3, START + 200);
    let gap = |past: &History, ms| told(past, ms)["gaps"].as_array().unwrap().clone();
    assert!(gap(&past, 900).contains(&json!({"from": at(200), "to": at(900)})));
    see(&mut past, 1000, 0, &[lock("k", 1, 29_000)]);
    assert_eq!(ends(&past, "waits", 2000), [(at(1000), json!("unknown"))]);
    let gaps = gap(&past, 2000);
    assert!(
        gaps.contains(&json!({"from": at(200), "to": at(1000)})),
        "{gaps:?}"
    );
    assert!(past.granted.is_empty() && past.unheard_ms.is_none());
}
