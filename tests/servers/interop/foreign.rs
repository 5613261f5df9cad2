//! A third-party client, in a process of its own.

use std::time::Duration;

use dlock_testkit::{RedisServer, python};

use crate::common::Program;
use crate::interop::KEY;

/// A Python process with a lock of redis-py at [`KEY`] that nobody has taken yet; without a TTL it
/// never expires.
pub(crate) async fn start(server: &RedisServer, ttl: Option<Duration>) -> Program {
    let mut command = python();
    command.args(["-c", include_str!("client.py"), &server.url()]);
    let mut foreign = Program::start(&mut command).await;
    let ttl = ttl.map_or_else(String::new, |ttl| ttl.as_secs_f64().to_string());
    assert_eq!(foreign.ask(&format!("lock {KEY} {ttl}")).await, "ready");
    foreign
}
