//! A cluster that is spoken to over TLS: the ports that it tells are those for TLS.

use std::net::TcpListener;

use dlock::{LockManager, store::redis::Tls};
use dlock_testkit::{Authority, Cluster};

use crate::common::{Env, shown, soon};

#[tokio::test]
async fn nodes_are_found_and_checked_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let (cert, key) = (identity.cert_file(), identity.key_file());
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let file = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (cert, key, ca) = (file(&cert), file(&key), file(&authority.ca_file()));
    let arguments = [
        ["--tls-port", &port],
        ["--tls-cert-file", &cert],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &ca],
        ["--tls-auth-clients", "no"],
        ["--tls-cluster", "yes"],
    ];
    let env = crate::cluster::env(Cluster::start_with(1, 0, arguments.as_flattened()).await);

    let url = format!("rediss-cluster://127.0.0.1:{port}");
    let builder = LockManager::builder();
    let trusting = builder.clone().tls(Tls::new().ca_pem(authority.ca_pem()));
    let manager = soon(trusting.connect(&url)).await.unwrap();
    for number in 0..3 {
        let key = format!("order:{number}");
        let guard = soon(manager.lock(key).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut env.cluster.node(0).connection().await)
        .await
        .unwrap();
    let ours: Vec<_> = list
        .lines()
        .filter(|it| it.contains("name=dlock:"))
        .collect();
    let over_tls = format!("laddr=127.0.0.1:{port} ");
    assert!(ours.len() == 1 && ours[0].contains(&over_tls), "{ours:?}");
    // Who does not trust the authority is not served by any other way.
    let error = soon(builder.connect(&url))
        .await
        .expect_err("it is not trusted");
    assert!(shown(&error).contains("certificate"), "{error}");
    env.assert_clean(3, &[&manager]).await;
}
