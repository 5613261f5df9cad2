//! The answers of the scripts about locks that are shared, raised or lost, and about data that is no lock.

#[cfg(feature = "admin")]
mod operators;

use redis::{RedisResult, Value};

use super::{Command, MODES, Scripts, TTL, key, owner};
use crate::{
    key::LockKey,
    mode::LockMode,
    owner::OwnerId,
    store::{AcquireRequest, Proposal, RaiseRequest, RenewRequest, StoreErrorKind},
};

const LOCK: &str = "dlock:{k}";
const QUEUE: &str = "dlock:{k}:q";
const LIVING: &str = "dlock:{k}:a";

/// Ahead of every clock, and no fence that is too great.
const AHEAD: u64 = 1 << 51;

impl Scripts {
    /// Forgets everything.
    async fn forget(&mut self) {
        self.command::<Value>(&["FLUSHDB"]).await;
    }

    /// The only counter of fences that there is.
    async fn counter(&self) -> String {
        let mut counters = self.server.keys("dlock:fence:*").await;
        assert_eq!(counters.len(), 1, "{counters:?}");
        counters.remove(0)
    }

    async fn raise(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        from: u64,
        to: u64,
    ) -> RedisResult<i64> {
        let command = Command::raise(&self.config, &RaiseRequest::new(key, owner, from, to));
        self.run(&command).await
    }

    /// Asks as a node of a quorum is asked.
    async fn propose(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        mode: LockMode,
        least: u64,
        notice: bool,
    ) -> Value {
        let request = AcquireRequest::new(key, owner, TTL).mode(mode).label("x");
        let proposal = Proposal::new(request, least).notice(notice);
        let command = Command::propose(&self.config, &proposal);
        self.run(&command).await.unwrap()
    }

    /// Asks without waiting.
    async fn ask_once(&mut self, key: &LockKey, owner: OwnerId, mode: LockMode) -> Value {
        let request = AcquireRequest::new(key, owner, TTL).mode(mode).label("x");
        let command = Command::acquire(&self.config, &request);
        self.run(&command).await.unwrap()
    }

    async fn leave(&mut self, key: &LockKey, owner: OwnerId, mode: LockMode) -> i64 {
        let release = self.release(key, owner, mode);
        self.run(&release).await.unwrap()
    }

    /// The fence of the lock `k`, and the last of all, as they are stored.
    async fn fences(&mut self, counter: &str, mode: LockMode) -> (String, String) {
        let fence = if mode.is_exclusive() {
            let value: String = self.command(&["GET", LOCK]).await;
            value.split(' ').nth(1).unwrap().to_owned()
        } else {
            let head: String = self.command(&["HGET", LOCK, "!"]).await;
            head.split(' ').next().unwrap().to_owned()
        };
        (fence, self.command(&["GET", counter]).await)
    }

    /// Lets all that wait for the lock `k` count as alive for a minute.
    async fn keep_waiters(&mut self) {
        let (seconds, _): (u64, u64) = self.command(&["TIME"]).await;
        let until = ((seconds + 60) * 1000).to_string();
        let waiters: Vec<String> = self.command(&["ZRANGE", QUEUE, "0", "-1"]).await;
        for waiter in &waiters {
            let words = ["ZADD", LIVING, &until, waiter];
            self.command::<Value>(&words).await;
        }
        for key in [QUEUE, LIVING] {
            self.command::<Value>(&["PEXPIRE", key, "60000"]).await;
        }
    }
}

fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::Array(_))
}

#[tokio::test]
async fn a_release_says_whether_the_lock_is_free_handed_on_or_still_shared() {
    use LockMode::{Exclusive, Permits, Shared};
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for (mode, other, waiter, expected) in [
        (Exclusive, None, None, 1),
        (Exclusive, None, Some(Exclusive), 2),
        (Exclusive, None, Some(Shared), 2),
        (Shared, None, None, 1),
        (Shared, None, Some(Exclusive), 2),
        (Shared, Some(Shared), None, 3),
        (Shared, Some(Shared), Some(Exclusive), 3),
        (Permits(1), None, Some(Permits(1)), 2),
        (Permits(2), Some(Permits(2)), Some(Permits(2)), 3),
    ] {
        let case = format!("{mode:?} {other:?} {waiter:?}");
        scripts.forget().await;
        let [me, beside, waits, stranger] = [(); 4].map(|()| owner());
        scripts.take(&lock, me, mode).await;
        if let Some(other) = other {
            scripts.take(&lock, beside, other).await;
        }
        if let Some(waiter) = waiter {
            let answer = scripts.acquire(&lock, waits, waiter).await;
            assert!(is_refused(&answer), "{case}: {answer:?}");
            scripts.keep_waiters().await;
        }
        assert_eq!(scripts.leave(&lock, stranger, mode).await, 0, "{case}");
        assert_eq!(scripts.leave(&lock, me, mode).await, expected, "{case}");
        assert_eq!(scripts.leave(&lock, me, mode).await, 0, "{case}");
    }
}

#[tokio::test]
async fn a_list_is_no_lock_in_any_mode() {
    let mut scripts = Scripts::start().await;
    let (lock, me) = (key("k"), owner());
    let write = ["RPUSH", LOCK, "a", "b"];
    scripts.command::<Value>(&write).await;
    for mode in MODES {
        let asks = AcquireRequest::new(&lock, me, TTL).mode(mode).label("x");
        let renews = RenewRequest::new(&lock, me, TTL).mode(mode).label("x");
        let raises = RaiseRequest::new(&lock, me, 7, 9);
        for (name, command) in [
            ("acquire", Command::acquire(&scripts.config, &asks)),
            ("renew", Command::renew(&scripts.config, &renews)),
            ("release", scripts.release(&lock, me, mode)),
            ("raise", Command::raise(&scripts.config, &raises)),
        ] {
            let answer: RedisResult<Value> = scripts.run(&command).await;
            let error = command.explain(&answer.expect_err(name), TTL);
            let kind = error.kind();
            assert_eq!(kind, StoreErrorKind::WrongType, "{name} {mode:?}: {error}");
        }
    }
    assert_eq!(scripts.server.keys("dlock:*").await, [LOCK]);
}

/// Taken for a lock that is held or free, it would be waited for, or taken.
#[tokio::test]
async fn a_lock_that_may_not_be_read_is_an_error_that_names_the_command() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for (denied, mode) in [
        ("GET", LockMode::Exclusive),
        ("GET", LockMode::Shared),
        ("HGET", LockMode::Shared),
    ] {
        scripts.forget().await;
        let (me, other) = (owner(), owner());
        scripts.take(&lock, me, mode).await;
        let rule = format!("-{}", denied.to_lowercase());
        let rules = ["ACL", "SETUSER", "default", &rule];
        scripts.command::<Value>(&rules).await;
        let asks = AcquireRequest::new(&lock, other, TTL).mode(mode).label("x");
        for (name, command) in [
            ("acquire", Command::acquire(&scripts.config, &asks)),
            ("release", scripts.release(&lock, me, mode)),
        ] {
            let answer: RedisResult<Value> = scripts.run(&command).await;
            let error = command.explain(&answer.expect_err(name), TTL);
            assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
            let place = format!("`{denied}` in script `{name}`");
            assert!(error.to_string().contains(&place), "{mode:?}: {error}");
        }
        let all = ["ACL", "SETUSER", "default", "+@all"];
        scripts.command::<Value>(&all).await;
        assert_eq!(scripts.leave(&lock, me, mode).await, 1);
    }
}

#[tokio::test]
async fn a_raise_concerns_one_lease_and_sets_no_fence_back() {
    let mut scripts = Scripts::start().await;
    for mode in MODES {
        scripts.forget().await;
        let (lock, me, stranger) = (key("k"), owner(), owner());
        let fence = scripts.take(&lock, me, mode).await;
        let counter = scripts.counter().await;
        let texts = |held: u64, last: u64| (held.to_string(), last.to_string());
        let later = fence + 5;
        for (who, from) in [(stranger, fence), (me, fence + 1)] {
            assert_eq!(scripts.raise(&lock, who, from, later).await, Ok(0));
            let found = scripts.fences(&counter, mode).await;
            assert_eq!(found, texts(fence, fence), "{mode:?}");
        }
        for again in ["at first", "again"] {
            assert_eq!(scripts.raise(&lock, me, fence, later).await, Ok(1));
            let found = scripts.fences(&counter, mode).await;
            assert_eq!(found, texts(later, later), "{mode:?} {again}");
        }
        // Other locks of the slot have got greater fences since.
        let (highest, last) = (later + 7, later + 100);
        let ahead = last.to_string();
        let set_ahead = ["SET", &counter, &ahead];
        scripts.command::<Value>(&set_ahead).await;
        for (from, to) in [(later, highest), (highest, later)] {
            assert_eq!(scripts.raise(&lock, me, from, to).await, Ok(1));
            let found = scripts.fences(&counter, mode).await;
            assert_eq!(found, texts(highest, last), "{mode:?} to {to}");
        }
        for foreign in ["x", "-1", "9e9", "4503599627370496"] {
            let set = ["SET", &counter, foreign];
            scripts.command::<Value>(&set).await;
            let answer = scripts.raise(&lock, me, highest, highest + 1).await;
            let error = answer.expect_err("the counter is no number");
            assert!(error.to_string().contains(&counter), "{error}");
            let found = scripts.fences(&counter, mode).await;
            let expected = (highest.to_string(), foreign.to_owned());
            assert_eq!(found, expected, "{mode:?}");
        }
        if !mode.is_exclusive() {
            scripts.command::<Value>(&set_ahead).await;
            // The lease has ended, and is still in the hash.
            let me_text = me.to_string();
            let ended = ["HSET", LOCK, &me_text, "1 x"];
            scripts.command::<Value>(&ended).await;
            assert_eq!(scripts.raise(&lock, me, highest, last).await, Ok(0));
        }
    }
}

/// The lock is free then, the waiter keeps its place, and what lies at the counter stays.
#[tokio::test]
async fn no_waiter_gets_a_lock_that_was_or_will_be_shared_without_a_fence() {
    use LockMode::{Exclusive, Permits, Shared};
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    for (holds, waits) in [
        (Exclusive, Shared),
        (Shared, Exclusive),
        (Permits(1), Permits(1)),
    ] {
        for foreign in [Some("x"), Some("4503599627370496"), None] {
            let case = format!("{holds:?} {waits:?} {foreign:?}");
            scripts.forget().await;
            let (me, waiter) = (owner(), owner());
            scripts.take(&lock, me, holds).await;
            let answer = scripts.acquire(&lock, waiter, waits).await;
            assert!(is_refused(&answer), "{case}: {answer:?}");
            scripts.keep_waiters().await;
            let counter = scripts.counter().await;
            scripts.command::<Value>(&["DEL", &counter]).await;
            let write = match foreign {
                Some(text) => vec!["SET", &counter, text],
                None => vec!["HSET", &counter, "field", "value"],
            };
            scripts.command::<Value>(&write).await;
            let before: Vec<u8> = scripts.command(&["DUMP", &counter]).await;
            assert_eq!(scripts.leave(&lock, me, holds).await, 1, "{case}");
            let after: Vec<u8> = scripts.command(&["DUMP", &counter]).await;
            assert_eq!(after, before, "{case}");
            assert_eq!(scripts.server.keys(LOCK).await, [""; 0], "{case}");
            let places: u64 = scripts.command(&["ZCARD", QUEUE]).await;
            assert_eq!(places, 1, "{case}");
        }
    }
}

/// From before the server's clock was set back and its counter was lost.
#[tokio::test]
async fn a_sharer_gets_more_than_the_fence_of_the_holder_before_it() {
    let mut scripts = Scripts::start().await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    scripts.take(&lock, me, LockMode::Exclusive).await;
    scripts.acquire(&lock, waiter, LockMode::Shared).await;
    scripts.keep_waiters().await;
    let counter = scripts.counter().await;
    scripts.command::<Value>(&["DEL", &counter]).await;
    let value = format!("{me} {AHEAD} x");
    let set = ["SET", LOCK, &value, "KEEPTTL"];
    scripts.command::<Value>(&set).await;
    assert_eq!(scripts.leave(&lock, me, LockMode::Exclusive).await, 2);
    let last: u64 = scripts.command(&["GET", &counter]).await;
    assert_eq!(last, AHEAD + 1);
}

#[tokio::test]
async fn the_least_fence_of_a_quorum_is_exceeded_where_the_server_is_as_far() {
    let mut scripts = Scripts::start().await;
    let (lock, me) = (key("k"), owner());
    for mode in MODES {
        scripts.forget().await;
        scripts.take(&lock, me, mode).await;
        assert_eq!(scripts.leave(&lock, me, mode).await, 1);
        let (counter, ahead) = (scripts.counter().await, AHEAD.to_string());
        let set = ["SET", &counter, &ahead];
        scripts.command::<Value>(&set).await;
        for (least, expected) in [
            (AHEAD - 1, AHEAD + 1),
            (AHEAD + 1, AHEAD + 2),
            (AHEAD + 9, AHEAD + 9),
            (1, AHEAD + 10),
        ] {
            let answer = scripts.propose(&lock, me, mode, least, false).await;
            let expected = i64::try_from(expected).unwrap();
            assert_eq!(answer, Value::Int(expected), "{mode:?} from {least}");
            assert_eq!(scripts.leave(&lock, me, mode).await, 1);
        }
    }
}

/// The leases of those that shared the lock have ended.
#[tokio::test]
async fn a_waiter_that_asks_without_waiting_takes_the_lock_in_its_turn() {
    let mut scripts = Scripts::start().await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let fence = scripts.take(&lock, me, LockMode::Shared).await;
    scripts.acquire(&lock, waiter, LockMode::Exclusive).await;
    scripts.keep_waiters().await;
    let (head, me) = (format!("{fence} 1"), me.to_string());
    let ended = ["HSET", LOCK, "!", &head, &me, "1 x"];
    scripts.command::<Value>(&ended).await;
    let answer = scripts.ask_once(&lock, waiter, LockMode::Exclusive).await;
    let Value::Int(granted) = answer else {
        panic!("it is the first: {answer:?}");
    };
    assert!(u64::try_from(granted).unwrap() > fence, "{granted}");
    let value: String = scripts.command(&["GET", LOCK]).await;
    assert_eq!(value, format!("{waiter} {granted} x"));
    assert_eq!(scripts.server.keys("dlock:{k}:*").await, [""; 0]);
}

/// A later request learns how long sharers wait for the exclusive waiter.
#[tokio::test]
async fn those_that_were_told_together_come_in_before_one_that_wants_the_lock_alone() {
    let mut scripts = Scripts::start().await;
    let lock = key("k");
    let [holder, one, two, alone, late] = [(); 5].map(|()| owner());
    scripts.take(&lock, holder, LockMode::Exclusive).await;
    for (waiter, mode) in [
        (one, LockMode::Shared),
        (two, LockMode::Shared),
        (alone, LockMode::Exclusive),
    ] {
        let answer = scripts.propose(&lock, waiter, mode, 0, true).await;
        assert!(is_refused(&answer), "{answer:?}");
        scripts.keep_waiters().await;
    }
    let released = scripts.leave(&lock, holder, LockMode::Exclusive).await;
    assert_eq!(released, 1);
    scripts.keep_waiters().await;
    let answer = scripts.ask_once(&lock, late, LockMode::Shared).await;
    let Value::Array(fields) = &answer else {
        panic!("it comes before the one that wants it alone: {answer:?}");
    };
    let Value::Int(left) = fields[0] else {
        panic!("{answer:?}");
    };
    assert!((20_000..=60_000).contains(&left), "{left} ms");
    for sharer in [two, one] {
        let mode = LockMode::Shared;
        let answer = scripts.propose(&lock, sharer, mode, 0, true).await;
        assert!(matches!(answer, Value::Int(_)), "{answer:?}");
    }
}
