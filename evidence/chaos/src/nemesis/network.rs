//! Connections that break, are silent, or lose one message.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{LOOK, Nemesis};
use crate::fault::{Kind, Topology};

/// So long a trap waits for a request.
const SPRUNG: Duration = Duration::from_secs(2);

/// In every request of a lock, to Redis, PostgreSQL, etcd and ZooKeeper.
const SCRIPT: &str = "EVALSHA";
const FUNCTION: &str = "\"dlock\".";
const CLAIM: &str = "dlock/chaos:";
const DIRECTORY: &str = "/lock:chaos:";

/// In no request at all.
const NEVER: &str = "\u{1}nothing has this\u{1}";

impl Nemesis<'_> {
    pub(super) async fn disturb(&mut self, kind: Kind) -> bool {
        let world = self.world;
        let proxies = world.some_connections(&mut self.random);
        let is_connected = proxies.iter().any(|proxy| proxy.open_connections() > 0);
        match kind {
            Kind::ConnectionsCut => {
                for _ in 0..=self.random.below(3) {
                    for proxy in &proxies {
                        proxy.cut();
                    }
                    sleep(self.random.millis(200)).await;
                }
            }
            Kind::ConnectionsRefused => {
                for proxy in &proxies {
                    proxy.refuse();
                    proxy.cut();
                }
                self.keep().await;
                for proxy in &proxies {
                    proxy.accept();
                }
            }
            Kind::NetworkSilent | Kind::RepliesLate => {
                for proxy in &proxies {
                    if kind == Kind::NetworkSilent {
                        proxy.freeze();
                    } else {
                        proxy.hold_replies();
                    }
                }
                self.keep().await;
                for proxy in &proxies {
                    proxy.thaw();
                }
            }
            _ => {
                let request = match world.topology {
                    Topology::Etcd => CLAIM,
                    Topology::ZooKeeper => DIRECTORY,
                    it if it.is_redis() => SCRIPT,
                    _ => FUNCTION,
                };
                for proxy in &proxies {
                    if kind == Kind::ReplyLost {
                        proxy.cut_before_reply_to(request);
                    } else {
                        proxy.cut_before_request(request);
                    }
                }
                let end = Instant::now() + SPRUNG;
                while proxies.iter().any(|proxy| proxy.is_trap_set()) && Instant::now() < end {
                    sleep(LOOK).await;
                }
                let has_sprung = proxies.iter().any(|proxy| !proxy.is_trap_set());
                for proxy in &proxies {
                    proxy.cut_before_request(NEVER);
                }
                return has_sprung;
            }
        }
        is_connected
    }
}
