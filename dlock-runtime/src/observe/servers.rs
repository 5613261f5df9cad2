//! Events of a server, for logs and metrics.

use tracing::warn;

use crate::telemetry::{TARGET, told};

/// Reports a password in the environment that the builder connecting to `server` does not read.
pub(crate) fn password_unread(server: &str) {
    told(|| {
        warn!(
            target: TARGET, %server,
            "the password in DLOCK_PASSWORD is not used: only `connect_env` reads it",
        );
    });
}
