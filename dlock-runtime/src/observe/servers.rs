//! Events of a server, for logs and metrics.

use tracing::{info, warn};

use super::{
    metrics,
    told::{TARGET, told},
};

/// The environment has a password for dlock, and the builder that connects to `server` was not told to read it.
pub(crate) fn password_unread(server: &str) {
    told(|| {
        warn!(
            target: TARGET, %server,
            "the password in DLOCK_PASSWORD is not used: only `connect_env` and `from_env` read it",
        );
    });
}

/// A server let no script publish a wake-up message, and this process has sent it instead, or tried to.
pub(crate) fn wake_up_resent(server: &str, is_published: bool, is_first: bool) {
    told(|| {
        let outcome = if is_published { "sent" } else { "failed" };
        metrics::wake_up_resent(server, outcome);
        if is_first {
            info!(
                target: TARGET, %server, outcome,
                "scripts cannot publish on this server: wake-up messages are sent separately",
            );
        }
    });
}
