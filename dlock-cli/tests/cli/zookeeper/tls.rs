//! TLS.

use dlock_testkit::Authority;

use super::super::{call, cases};

#[tokio::test]
async fn the_command_has_a_tls_provider() {
    let authority = Authority::new();
    // No server listens there.
    let url = format!("zookeeper://127.0.0.1:1?{}", authority.ssl_options(None));
    let ended = call(&mut cases::at(&url, "tls", &["ls"])).await.with(69);
    assert!(
        ended.stderr.contains("no server answers"),
        "{}",
        ended.stderr
    );
}
