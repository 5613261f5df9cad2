//! Filters, orders and pages of the list.

use std::time::{Duration, SystemTime};

use dlock_admin::{LockInfo, Overview};
use dlock_runtime::store::LockMode;

use super::{
    super::{
        picture::{Draft, Picture},
        query::Query,
    },
    fake::{held, waiter},
};

/// Four locks: `a` and `B` are held, `c` is shared, `d` is only awaited.
fn picture() -> Picture {
    let mut held_b = held("job:B", 2, "Mail@host/2");
    if let Some(holder) = &mut held_b.holder {
        holder.ttl = Some(Duration::from_secs(5));
        holder.since = Some(SystemTime::now() - Duration::from_secs(60));
    }
    held_b.add_waiter(waiter(7, Duration::from_secs(9)));
    let mut shared = held("order:c", 3, "billing@host/3");
    shared.mode = Some(LockMode::Shared);
    if let Some(holder) = &mut shared.holder {
        holder.function = Some("shop::Settle".to_owned());
        holder.ttl = None;
        holder.since = None;
    }
    let mut awaited = LockInfo::new("order:d");
    awaited.add_waiter(waiter(8, Duration::from_secs(4)));
    awaited.add_waiter(waiter(9, Duration::from_secs(2)));
    let now_ms = super::super::moment::since_1970(SystemTime::now());
    let mut draft = Draft::like(None);
    // They come in any order, and one of them twice: the later reading counts.
    draft.add(&held("order:c", 1, "an earlier reading"), now_ms - 1000);
    for lock in [&shared, &awaited, &held("job:a", 1, "cron@host/1"), &held_b] {
        draft.add(lock, now_ms);
    }
    draft.finish(Overview::default(), now_ms, Duration::ZERO)
}

fn keys(query: &str) -> Vec<String> {
    let picture = picture();
    let chosen = Query::read(query).unwrap().choose(&picture);
    assert!(chosen.locks.len() <= chosen.matching);
    chosen.locks.iter().map(|it| it.key().to_owned()).collect()
}

#[test]
fn filters_find_keys_holders_and_functions_in_any_case() {
    for (filter, found) in [
        ("", &["job:B", "job:a", "order:c", "order:d"][..]),
        ("JOB", &["job:B", "job:a"]),
        ("b", &["job:B", "job:a", "order:c"]),
        ("mail", &["job:B"]),
        ("settle", &["order:c"]),
        ("waiter", &["job:B", "order:d"]),
        ("order:*", &["order:c", "order:d"]),
        ("*:b", &["job:B"]),
        ("cron*", &[]),
        // Only the star is special.
        ("*[c]", &[]),
        ("order:?*", &[]),
        ("an earlier reading", &[]),
        ("nothing", &[]),
    ] {
        assert_eq!(keys(&format!("filter={filter}")), found, "{filter}");
    }
    for (query, found) in [
        ("filter=@host&by=holder", &["job:B", "job:a", "order:c"][..]),
        ("filter=settle&by=holder", &[]),
        ("filter=Cron@*&by=holder", &["job:a"]),
        ("filter=order&by=holder", &[]),
        ("filter=@host&by=waiter", &["job:B", "order:d"]),
        ("filter=waiter@host/9&by=waiter", &["order:d"]),
        ("filter=waiter@host/*&by=waiter", &["job:B", "order:d"]),
        ("filter=mail&by=waiter", &[]),
        ("filter=job&by=waiter", &[]),
    ] {
        assert_eq!(keys(query), found, "{query}");
    }
    assert!(Query::read("by=key").is_err());
    assert_eq!(keys("state=held"), ["job:B", "job:a", "order:c"]);
    assert_eq!(keys("state=waiting"), ["job:B", "order:d"]);
    assert_eq!(keys("mode=shared"), ["order:c"]);
    assert_eq!(keys("mode=exclusive"), ["job:B", "job:a"]);
    assert_eq!(keys("mode=exclusive&state=waiting&filter=o"), ["job:B"]);
}

#[test]
fn names_of_any_script_are_found_in_any_case() {
    let mut draft = Draft::like(None);
    let mut limited = held("Äpfel:1", 1, "Übung@host/1");
    limited.mode = Some(LockMode::Permits(3));
    for lock in [&limited, &held("plain:ü", 2, "cron@host/2")] {
        draft.add(lock, 1000);
    }
    let picture = draft.finish(Overview::default(), 1000, Duration::ZERO);
    for (query, found) in [
        ("filter=äPFEL", &["Äpfel:1"][..]),
        ("filter=äpfel:*", &["Äpfel:1"]),
        ("filter=ÜBUNG", &["Äpfel:1"]),
        ("filter=übung@*&by=holder", &["Äpfel:1"]),
        ("filter=Ü", &["plain:ü", "Äpfel:1"]),
        ("filter=apfel", &[]),
        ("mode=shared", &["Äpfel:1"]),
        ("mode=exclusive", &["plain:ü"]),
        ("filter=nothing&sort=ttl", &[]),
    ] {
        let chosen = Query::read(query).unwrap().choose(&picture);
        let keys: Vec<_> = chosen.locks.iter().map(|it| it.key()).collect();
        assert_eq!(keys, found, "{query}");
    }
}

#[test]
fn orders_put_locks_without_a_value_last() {
    for (sort, ascending, descending) in [
        (
            "key",
            "job:B job:a order:c order:d",
            "order:d order:c job:a job:B",
        ),
        (
            "held",
            "job:a job:B order:c order:d",
            "job:B job:a order:c order:d",
        ),
        (
            "ttl",
            "job:B job:a order:c order:d",
            "job:a job:B order:c order:d",
        ),
        (
            "waiters",
            "job:a order:c job:B order:d",
            "order:d job:B job:a order:c",
        ),
        (
            "wait",
            "order:d job:B job:a order:c",
            "job:B order:d job:a order:c",
        ),
        (
            "holder",
            "job:B order:c job:a order:d",
            "job:a order:c job:B order:d",
        ),
    ] {
        for (order, told) in [("asc", ascending), ("desc", descending)] {
            let query = format!("sort={sort}&order={order}");
            assert_eq!(keys(&query).join(" "), told, "{query}");
        }
    }
}

#[test]
fn pages_hold_each_lock_once_in_every_order() {
    let picture = picture();
    for sort in ["key", "held", "ttl", "waiters", "wait", "holder"] {
        let whole = keys(&format!("sort={sort}&order=desc"));
        let mut paged = Vec::new();
        for page in 1..=2 {
            let query = format!("sort={sort}&order=desc&per=3&page={page}");
            let chosen = Query::read(&query).unwrap().choose(&picture);
            let counts = (chosen.matching, chosen.page, chosen.pages, chosen.per);
            assert_eq!(counts, (4, page, 2, 3));
            paged.extend(chosen.locks.iter().map(|it| it.key().to_owned()));
        }
        assert_eq!(paged, whole, "{sort}");
    }
    let behind = Query::read("per=3&page=9").unwrap().choose(&picture);
    assert_eq!((behind.page, behind.locks.len()), (2, 1));
    let nothing = Query::read("filter=nothing").unwrap().choose(&picture);
    assert_eq!((nothing.page, nothing.pages, nothing.matching), (1, 1, 0));
}

/// Few locks are put in order as a whole, whichever of them are needed.
#[test]
fn pages_of_many_locks_are_in_order() {
    let mut draft = Draft::like(None);
    let now_ms = super::super::moment::since_1970(SystemTime::now());
    for number in 0..300_u64 {
        let mut lock = held(&format!("job:{number:03}"), number, "cron@host/1");
        if let Some(holder) = &mut lock.holder {
            // All numbers, in an order unlike that of the keys.
            holder.ttl = Some(Duration::from_secs(1 + number * 67 % 300));
        }
        draft.add(&lock, now_ms);
    }
    let picture = draft.finish(Overview::default(), now_ms, Duration::ZERO);
    let chosen = |query: &str| {
        let chosen = Query::read(query).unwrap().choose(&picture);
        let keys = chosen.locks.iter().map(|it| it.key().to_owned());
        keys.collect::<Vec<_>>()
    };
    let whole = chosen("sort=ttl&per=300");
    assert_eq!(whole[..2], ["job:000", "job:103"]);
    let pages = (1..=10).flat_map(|page| chosen(&format!("sort=ttl&per=30&page={page}")));
    assert_eq!(pages.collect::<Vec<_>>(), whole);
}

#[test]
fn a_wrong_query_names_what_is_right() {
    for (query, right) in [
        ("state=free", "`held` or `waiting`"),
        ("mode=permits", "`exclusive` or `shared`"),
        ("sort=size", "`ttl`"),
        ("order=up", "`asc` or `desc`"),
        ("page=0", "a number from 1"),
        ("page=x", "a number from 1"),
        ("page=-1", "a number from 1"),
        ("per=0", "from 1 to 500"),
        ("per=501", "from 1 to 500"),
        ("by=key", "`holder` or `waiter`"),
    ] {
        let reason = Query::read(query).unwrap_err();
        assert!(reason.contains(right), "{query}: {reason}");
    }
    for query in ["per=1", "per=500", "page=1"] {
        assert!(Query::read(query).is_ok(), "{query}");
    }
    // As long as a key can be.
    assert!(Query::read(&format!("filter={}", "a".repeat(512))).is_ok());
    let long = format!("filter={}", "a".repeat(513));
    assert!(Query::read(&long).is_err());
    let long = format!("filter={}", "*a".repeat(300));
    assert!(Query::read(&long).unwrap_err().contains("512 bytes"));
    assert!(Query::read("state=&sort=&other=1&page=").is_ok());
}

#[test]
fn totals_count_what_the_picture_has() {
    let picture = picture();
    assert_eq!(picture.len(), 4);
    assert_eq!((picture.totals.held, picture.totals.waiters), (3, 3));
    assert_eq!(picture.totals.longest_wait_ms, Some(9000));
    assert!(!picture.totals.of_quorum);
    let shared = picture.named("order:c").unwrap();
    assert_eq!(shared.holder().unwrap().label(), Some("billing@host/3"));
    assert!(picture.named("order:").is_none());
}
