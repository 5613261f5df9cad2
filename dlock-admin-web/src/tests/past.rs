//! The history of locks, from pictures at chosen times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_admin::{HolderInfo, LockInfo, Overview};
use dlock_runtime::store::LockMode;
use serde_json::{Value, json};

use super::{
    super::{history::History, moment, picture::Draft},
    fake::{held, owner, waiter},
};

/// The time of the first picture.
const START: u64 = 1_700_000_000_000;

fn time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(START + ms)
}

/// Returns a lock that `number` has held since a time, for another `ttl` seconds.
fn lock(number: u64, since: u64, ttl: u64) -> LockInfo {
    let mut lock = held("k", number, &format!("holder@host/{number}"));
    if let Some(holder) = &mut lock.holder {
        holder.since = Some(time(since));
        holder.ttl = Some(Duration::from_secs(ttl));
    }
    lock
}

fn awaited_by(mut lock: LockInfo, number: u64, waiting: u64) -> LockInfo {
    lock.add_waiter(waiter(number, Duration::from_millis(waiting)));
    lock
}

#[derive(Default)]
struct Past(History);

impl Past {
    fn see_all(&mut self, ms: u64, locks: &[LockInfo], is_gap: bool) {
        let mut draft = Draft::like(None);
        for lock in locks {
            draft.add(lock, START + ms);
        }
        let picture = draft.finish(Overview::default(), START + ms, Duration::ZERO);
        self.0.see(picture, is_gap);
    }

    fn see(&mut self, ms: u64, lock: impl Into<Option<LockInfo>>) {
        self.see_all(ms, lock.into().as_slice(), false);
    }

    fn told(&self, ms: u64) -> Value {
        serde_json::to_value(self.0.view("k", START + ms, false)).unwrap()
    }

    /// Returns begin and end of each lease or wait, with the way in which it ended.
    fn ends(&self, what: &str, ms: u64) -> Vec<(Value, Value, Value)> {
        let told = self.told(ms);
        let of = |it: &Value, name: &str| it[name].clone();
        let all = told[what].as_array().unwrap().iter();
        all.map(|it| (of(it, "from"), of(it, "to"), of(it, "end")))
            .collect()
    }
}

fn at(ms: u64) -> Value {
    moment::text(START + ms).into()
}

#[test]
fn a_lease_that_ends_early_was_released() {
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    assert_eq!(past.ends("holds", 500), [(at(0), Value::Null, Value::Null)]);
    past.see(1000, None);
    assert_eq!(
        past.ends("holds", 1500),
        [(at(0), at(1000), json!("released"))]
    );
    past.see(2000, Some(lock(2, 1700, 30)));
    past.see(3000, Some(lock(3, 2400, 30)));
    let ends = past.ends("holds", 3500);
    assert_eq!(
        ends[1],
        (at(1700), at(2400), json!("released")),
        "the next one did not wait"
    );
    assert_eq!(ends[2], (at(2400), Value::Null, Value::Null));
}

#[test]
fn a_lease_goes_to_the_one_that_has_waited() {
    let mut past = Past::default();
    past.see(0, Some(awaited_by(lock(1, 0, 30), 2, 300)));
    past.see(1000, Some(lock(2, 600, 30)));
    let ends = past.ends("holds", 1500);
    assert_eq!(ends[0], (at(0), at(600), json!("granted")));
    let waits = past.told(1500)["waits"].clone();
    assert_eq!(waits[0]["end"], "granted");
    assert_eq!(waits[0]["to"], at(600));
    assert_eq!(waits[0]["label"], "waiter@host/2");
    assert_eq!(waits[0]["mode"], "exclusive");
}

#[test]
fn a_waiter_that_is_gone_has_left_unless_grants_went_by() {
    for (is_granted, end) in [(false, "left"), (true, "unknown")] {
        let mut past = Past::default();
        past.see(0, Some(awaited_by(lock(1, 0, 30), 2, 300)));
        if is_granted {
            past.0.heard("k", owner(3), 3, START + 500);
        }
        past.see(1000, Some(lock(1, 0, 29)));
        let waits = past.told(1500)["waits"].clone();
        assert_eq!(waits[0]["end"], end);
        assert_eq!(waits.as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_lease_that_was_not_renewed_has_expired() {
    let mut past = Past::default();
    for second in 0..=29 {
        past.see(second * 1000, Some(lock(1, 0, 30 - second)));
    }
    past.see(30_500, None);
    assert_eq!(
        past.ends("holds", 31_000),
        [(at(0), at(30_000), json!("expired"))]
    );
    assert_eq!(past.told(31_000)["holds"][0]["renewed"], json!([]));
    // Between readings that are far apart it may have been renewed, and released.
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    past.see(31_000, None);
    assert_eq!(
        past.ends("holds", 32_000),
        [(at(0), at(31_000), json!("unknown"))]
    );
}

#[test]
fn a_renewal_shows_in_a_longer_ttl() {
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    past.see(9000, Some(lock(1, 0, 21)));
    // It was renewed at 10 s, and read a second later.
    past.see(11_000, Some(lock(1, 0, 29)));
    past.see(12_000, Some(lock(1, 0, 28)));
    past.see(13_000, None);
    let told = past.told(14_000);
    assert_eq!(told["holds"][0]["renewed"], json!([at(10_000)]));
    assert_eq!(told["holds"][0]["end"], "released");
    assert_eq!(told["holds"].as_array().unwrap().len(), 1);
}

#[test]
fn grants_show_leases_that_no_picture_has() {
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    past.0.heard("k", owner(2), 2, START + 200);
    past.0.heard("other", owner(9), 9, START + 250);
    past.0.heard("k", owner(3), 3, START + 300);
    past.0.heard("k", owner(4), 0, START + 350);
    past.see(1000, Some(lock(3, 300, 30)));
    let ends = past.ends("holds", 1500);
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert_eq!(ends[1], (at(200), at(300), json!("granted")));
    assert_eq!(ends[2], (at(300), Value::Null, Value::Null));
}

#[test]
fn one_busy_lock_is_remembered_in_part() {
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    for number in 0..1000 {
        past.0
            .heard("k", owner(number), 10 + number, START + 100 + number);
    }
    past.see(2000, Some(lock(5000, 1900, 30)));
    let told = past.told(2500);
    let gaps = told["gaps"].as_array().unwrap();
    assert!(
        gaps.contains(&json!({"from": at(120), "to": at(2000)})),
        "{gaps:?}"
    );
    assert!(told["holds"].as_array().unwrap().len() <= 23, "{told:#}");
}

#[test]
fn nothing_is_concluded_from_a_time_without_readings() {
    let mut past = Past::default();
    past.see(0, Some(awaited_by(lock(1, 0, 30), 2, 300)));
    past.see_all(60_000, &[], true);
    assert_eq!(
        past.ends("holds", 61_000),
        [(at(0), at(0), json!("unknown"))]
    );
    assert_eq!(past.told(61_000)["waits"][0]["end"], "unknown");
    let gaps = past.told(61_000)["gaps"].clone();
    assert_eq!(gaps[1], Value::Null, "they are next to each other");
    assert_eq!(gaps[0]["to"], at(60_000));
}

#[test]
fn the_time_before_the_first_picture_and_an_outage_are_gaps() {
    let mut past = Past::default();
    past.see(0, Some(lock(1, 0, 30)));
    past.see(1000, Some(lock(1, 0, 29)));
    let told = past.told(2000);
    let first = json!({"from": told["from"], "to": at(0)});
    assert_eq!(told["gaps"], json!([first]));
    let away = serde_json::to_value(past.0.view("k", START + 9000, true)).unwrap();
    assert_eq!(away["gaps"][1], json!({"from": at(1000), "to": at(9000)}));
}

#[test]
fn one_of_many_that_share_a_lock_leaves_and_another_joins() {
    let shared = |numbers: &[u64], ttl: u64| {
        let mut lock = LockInfo::new("k");
        lock.mode = Some(LockMode::Shared);
        for number in numbers {
            let mut holder = HolderInfo::new(Some(owner(*number)), 7, time(0));
            // It is the time of the first of them.
            holder.since = Some(time(0));
            holder.ttl = Some(Duration::from_secs(ttl));
            lock.add_holder(holder);
        }
        Some(lock)
    };
    let mut past = Past::default();
    past.see(100, shared(&[1, 2], 30));
    past.see(1000, shared(&[2, 3], 29));
    past.see(2000, shared(&[2, 3], 28));
    let mut ends = past.ends("holds", 2500);
    ends.sort_by_key(|it| (it.0.to_string(), it.1.is_null()));
    assert_eq!(
        ends,
        [
            (at(100), at(1000), json!("released")),
            (at(100), Value::Null, Value::Null),
            (at(1000), Value::Null, Value::Null),
        ]
    );
}

#[test]
fn what_is_forgotten_is_a_gap() {
    let mut past = Past::default();
    let many: Vec<_> = (0..25_000)
        .map(|number| {
            let mut lock = held(&format!("n:{number}"), number, "many@host/1");
            if let Some(holder) = &mut lock.holder {
                holder.since = Some(time(0));
            }
            lock
        })
        .collect();
    past.see(0, Some(lock(1, 0, 30)));
    past.see_all(1000, &many, false);
    assert_eq!(past.ends("holds", 1500).len(), 1);
    past.see_all(2000, &[], false);
    let told = past.told(2500);
    assert_eq!(told["holds"], json!([]), "its end is forgotten");
    assert_eq!(
        told["gaps"],
        json!([{"from": told["from"], "to": at(2000)}])
    );
}
