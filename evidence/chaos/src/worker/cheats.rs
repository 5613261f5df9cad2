//! Crowds that exclude nobody, for which a judge has to find overlaps.

use std::time::Duration;

use dlock_testkit::machine_time;
use redis::{Client, aio::MultiplexedConnection};
use tokio::time::sleep;

use super::{KEYS, inside::Caller};
use crate::random::Random;

/// Much shorter than its sections, and nobody renews it.
const SHORT_TTL: Duration = Duration::from_millis(10);

async fn body(caller: &Caller, key: &str, token: i64, random: &mut Random) {
    let mut inside = caller.pretend(key, token);
    for _ in 0..3 {
        inside.write();
        sleep(random.millis(20)).await;
        inside.sign();
    }
    inside.finish();
}

/// Enters at once, with a token that grows.
pub(super) async fn no_lock(caller: &Caller, random: &mut Random) {
    let key = KEYS[random.below(KEYS.len())];
    let token = i64::try_from(machine_time().as_nanos()).expect("it fits for centuries");
    body(caller, key, token, random).await;
}

/// Takes a lock as many do by hand: `SET NX PX`, and `DEL` by whoever leaves.
pub(super) async fn blind_delete(caller: &Caller, url: &str, random: &mut Random) {
    let key = KEYS[random.below(KEYS.len())];
    let client = Client::open(url).expect("the URL is well formed");
    // Whatever fails is tried again by the next call.
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
        return;
    };
    let Some(token) = take(&mut connection, key).await else {
        return;
    };
    body(caller, key, token, random).await;
    let mut delete = redis::cmd("DEL");
    delete.arg(lock(key)).exec_async(&mut connection).await.ok();
}

async fn take(connection: &mut MultiplexedConnection, key: &str) -> Option<i64> {
    let mut set = redis::cmd("SET");
    set.arg(lock(key)).arg(1).arg("NX").arg("PX");
    set.arg(u64::try_from(SHORT_TTL.as_millis()).expect("it is short"));
    let mut is_set: Option<String> = None;
    while is_set.is_none() {
        is_set = set.query_async(connection).await.ok()?;
        sleep(Duration::from_millis(1)).await;
    }
    let mut count = redis::cmd("INCR");
    count.arg("dlock:fence:by-hand");
    count.query_async(connection).await.ok()
}

fn lock(key: &str) -> String {
    format!("dlock:{{{key}}}")
}
