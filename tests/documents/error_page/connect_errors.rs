//! Why a manager could not be made.

use std::time::Duration;

use dlock::{ConnectError, LockManager};

use crate::common::soon;
use crate::error_page::{page::Page, refused};

/// The error, and what of the configuration it has to name.
async fn provoke(code: &str) -> (ConnectError, String) {
    let builder = LockManager::builder();
    match code {
        "invalid-url" => {
            // Of what is no URL of ours only the scheme is shown: the rest may be a secret.
            let error = builder.connect("http://shop.example").await.unwrap_err();
            (error, "`http://…`".to_owned())
        }
        "no-url" => {
            assert_eq!(
                std::env::var_os("DLOCK_URL"),
                None,
                "unset it for the tests"
            );
            let error = LockManager::connect_env().await.unwrap_err();
            (error, "`DLOCK_URL`".to_owned())
        }
        "invalid-manager-option" => {
            let error = builder
                .ttl(Duration::ZERO)
                .connect("memory://")
                .await
                .unwrap_err();
            (error, "`ttl`".to_owned())
        }
        "invalid-certificate" => {
            let url = "rediss://127.0.0.1:1?ca=/no/such/file.pem";
            let error = builder.connect(url).await.unwrap_err();
            (error, "/no/such/file.pem".to_owned())
        }
        "would-block-connect" => {
            let error = builder.connect_blocking("memory://").unwrap_err();
            (error, "`connect_blocking`".to_owned())
        }
        "no-connection" => {
            let (_proxy, url) = refused();
            let builder = builder.connect_timeout(Duration::from_secs(4));
            (builder.connect(&url).await.unwrap_err(), url)
        }
        other => panic!("nobody knows how to provoke `{other}`"),
    }
}

#[tokio::test]
async fn each_is_on_the_page() {
    let page = Page::read();
    for code in ConnectError::CODES {
        let (error, named) = soon(provoke(code)).await;
        assert_eq!(error.code(), *code, "{error}");
        page.assert_shows(code, &error);
        assert!(error.to_string().contains(&named), "{error}");
    }
}
