//! The steps and pauses of an inspection of many locks, on a real server.

use std::{collections::BTreeMap, time::Duration};

use dlock_testkit::RedisServer;

use super::{Wanted, pace::LOCKS_AT_ONCE};
use crate::store::redis::{RedisConfig, admin::reader::RedisReader};

const LOCKS: u32 = 10_000;

/// Writes locks as their holders do.
const HOLD: &str = "
for i = 1, tonumber(ARGV[1]) do
  redis.call('SET', 'dlock:{order:' .. i .. '}', ARGV[2] .. ':' .. i .. ' ' .. i .. ' shop@host/1', 'PX', 600000)
end";

#[tokio::test]
async fn a_program_that_has_just_begun_reads_ten_thousand_locks_before_its_first_pause() {
    let server = RedisServer::start().await;
    let mut hold = redis::cmd("EVAL");
    hold.arg(HOLD).arg(0).arg(LOCKS).arg("5".repeat(32));
    let mut connection = server.connection().await;
    hold.exec_async(&mut connection).await.unwrap();
    let mut config = RedisConfig::new(server.url());
    config.response_timeout = Duration::from_secs(60);
    let reader = RedisReader::connect(config).await.unwrap().remove(0);
    reader.begin();
    let mut count = 0;
    let readings = async {
        loop {
            let mut pass_on = |locks: BTreeMap<_, _>, _: &_| count += locks.len();
            let read = reader.survey_in_parts(Wanted::All, &mut pass_on);
            read.await.unwrap();
        }
    };
    let first_pause = async {
        while reader.pace.counts().pauses == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = first_pause => {}
        () = readings => {}
    }
    let counts = reader.pace.counts();
    assert!(counts.cost >= Duration::from_millis(490), "{counts:?}");
    // It is enough for 10,000 locks at 49 µs each, and a server takes some 30 µs, unless the machine stops it meanwhile.
    println!("{count} locks before the first pause: {counts:?}");
    // Other clients are served between two steps, each of which is a short one.
    let most = usize::try_from(counts.steps).unwrap() * LOCKS_AT_ONCE;
    assert!(count <= most, "{count} locks: {counts:?}");
}
