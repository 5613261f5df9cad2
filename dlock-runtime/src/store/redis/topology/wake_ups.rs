//! Publishes wake-up messages that a script could not publish.
//!
//! Where pub/sub is sharded, as on managed servers, a script that works on one slot cannot publish in another.
//! It then returns the message, and a separate command sends it to any server. A wake-up message is not
//! guaranteed: if it is lost, its waiter finds the grant at its next poll; if it is late, it is checked like
//! any other.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::timeout;
use tracing::info;

use super::servers::Servers;
use crate::{
    store::redis::{
        net::counts,
        protocol::{answers::UnsentWakeUp, command::Command},
    },
    telemetry::{TARGET, told},
};

/// The publisher of one store.
#[derive(Default)]
pub(crate) struct WakeUps {
    was_told: AtomicBool,
}

impl WakeUps {
    /// Publishes the message that the script of `command` could not publish, within `limit`. The message must
    /// be written before the caller continues, because its program may then end.
    pub(crate) async fn publish(
        &self,
        servers: &Servers,
        server: &str,
        command: &Command,
        untold: UnsentWakeUp<'_>,
        limit: Duration,
    ) {
        let first = !self.was_told.swap(true, Ordering::Relaxed);
        let published = timeout(
            limit,
            servers.execute(&Command::publish(command.slot(), untold)),
        )
        .await;
        told(|| {
            let is_published = matches!(published, Ok(Ok(_)));
            let outcome = if is_published { "sent" } else { "failed" };
            counts::wake_up_resent(server, outcome);
            if first {
                info!(
                    target: TARGET, %server, outcome,
                    "scripts cannot publish on this server: wake-up messages are sent separately",
                );
            }
        });
    }
}
