//! Crowds with something wrong, which a judge has to find, and one with nothing wrong, to compare.

use std::{future::pending, time::Duration};

use dlock_history::Mode;
use dlock_testkit::machine_time;
use redis::{Client, Script, aio::MultiplexedConnection};
use tokio::time::sleep;

use super::{KEYS, inside::Caller};
use crate::random::Random;

/// It is not renewed. Most sections are much shorter, also on a busy machine; some are longer.
const SHORT_TTL: Duration = Duration::from_millis(400);

/// For how long its holder believes in it.
const BELIEVED: Duration = Duration::from_millis(370);

/// The longest step of most sections, in ms.
const STEP: u64 = 20;

/// The longest step of the others, which may outlive their lock.
const LONG_STEP: u64 = 500;

const DELETE_OWN: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// The lock that the end of a section deletes.
#[derive(Clone, Copy)]
pub(super) enum Delete {
    /// The lock of any holder.
    Any,
    /// Nothing but its own lock.
    Own,
}

/// A lock as many programs take it by hand: the holder, and the end of its validity.
struct Taken {
    owner: String,
    token: i64,
    until: Duration,
}

async fn body(
    caller: &Caller,
    (key, mode): (&str, Mode),
    token: i64,
    until: Duration,
    (step, random): (u64, &mut Random),
) {
    let mut inside = caller.pretend(key, mode, token, until);
    for _ in 0..3 {
        inside.write();
        inside.book(random.millis(step)).await;
    }
    inside.finish();
}

/// Enters at once, in this mode and with a token that grows.
pub(super) async fn no_lock(caller: &Caller, mode: Mode, random: &mut Random) {
    let key = KEYS[random.below(KEYS.len())];
    let token = i64::try_from(machine_time().as_nanos()).expect("it fits for centuries");
    body(caller, (key, mode), token, Duration::MAX, (STEP, random)).await;
}

/// Takes a lock with `SET NX PX`, and deletes it in the end, though it may have ended by then.
pub(super) async fn by_hand(caller: &Caller, url: &str, random: &mut Random, delete: Delete) {
    let key = KEYS[random.below(KEYS.len())];
    let client = Client::open(url).expect("the URL is well formed");
    // Whatever fails is tried again by the next call.
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
        return;
    };
    let owner = random.next().to_string();
    let Some(taken) = take(&mut connection, key, owner).await else {
        return;
    };
    let step = if random.one_in(8) { LONG_STEP } else { STEP };
    let lock = (key, Mode::Exclusive);
    body(caller, lock, taken.token, taken.until, (step, random)).await;
    let deleted = match delete {
        Delete::Any => {
            let mut order = redis::cmd("DEL");
            order.arg(lock_of(key)).exec_async(&mut connection).await
        }
        Delete::Own => {
            let script = Script::new(DELETE_OWN);
            let mut call = script.key(lock_of(key));
            call.arg(taken.owner).invoke_async(&mut connection).await
        }
    };
    deleted.ok();
}

async fn take(connection: &mut MultiplexedConnection, key: &str, owner: String) -> Option<Taken> {
    let mut set = redis::cmd("SET");
    set.arg(lock_of(key)).arg(&owner).arg("NX").arg("PX");
    set.arg(u64::try_from(SHORT_TTL.as_millis()).expect("it is short"));
    let until = loop {
        let from = machine_time();
        let is_set: Option<String> = set.query_async(connection).await.ok()?;
        if is_set.is_some() {
            break from + BELIEVED;
        }
        sleep(Duration::from_millis(1)).await;
    };
    let mut count = redis::cmd("INCR");
    count.arg("dlock:fence:by-hand");
    let token = count.query_async(connection).await.ok()?;
    Some(Taken {
        owner,
        token,
        until,
    })
}

fn lock_of(key: &str) -> String {
    format!("dlock:{{{key}}}")
}

/// Panics in a task without a waiter.
pub(super) async fn panic_unseen() {
    tokio::spawn(async { panic!("nobody looks") });
    pending::<()>().await;
}
