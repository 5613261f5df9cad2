//! Events of a server, for logs and metrics.

use tracing::warn;

use crate::telemetry::{TARGET, told};

/// The environment has a password for dlock, and the builder that connects to `server` was not told to read it.
pub(crate) fn password_unread(server: &str) {
    told(|| {
        warn!(
            target: TARGET, %server,
            "the password in DLOCK_PASSWORD is not used: only `connect_env` reads it",
        );
    });
}
