//! The page while the store, or the program itself, is unreachable, and afterwards.

use super::site::Site;
use super::{KEYS, keys, state, text};

const BANNER: &str = "document.querySelector('#banner').dataset.kind";

fn lock(key: &str) -> (String, String) {
    (key.to_owned(), "orders@web-1/4100".to_owned())
}

/// Waits until the age of the picture grows.
async fn ages(page: &dlock_testkit::Page) {
    page.eval("window.age = document.querySelector('#banner-age').textContent")
        .await;
    page.until("document.querySelector('#banner-age').textContent.includes('the picture below is') && window.age !== document.querySelector('#banner-age').textContent").await;
}

#[tokio::test]
async fn an_outage_of_the_store_is_shown_with_the_last_picture() {
    let site = Site::start(&[]).await;
    site.write([lock("a")]).await;
    let page = site.open("locks").await;
    keys(&page, &["a"]).await;
    site.server.kill();
    page.until(&format!("{BANNER} === 'away'")).await;
    text(&page, "The store is unreachable").await;
    state(&page, "away").await;
    ages(&page).await;
    assert_eq!(page.eval(KEYS).await, serde_json::json!(["a"]));
    assert_eq!(
        page.eval("document.querySelector('main').classList.contains('stale')")
            .await,
        true
    );

    site.server.restart().await;
    site.write([lock("b")]).await;
    text(&page, "The store answers again").await;
    keys(&page, &["b"]).await;
    state(&page, "live").await;
    page.until(&format!("{BANNER} === 'none'")).await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_outage_too() {
    let site = Site::start(&[]).await;
    site.write([lock("a")]).await;
    let page = site.open("locks").await;
    keys(&page, &["a"]).await;
    site.server.pause();
    page.until("['late', 'away'].includes(document.querySelector('#state').dataset.state)")
        .await;
    site.server.resume();
    state(&page, "live").await;
    keys(&page, &["a"]).await;
}

#[tokio::test]
async fn an_outage_of_the_program_is_shown_and_ends_by_itself() {
    let mut site = Site::start(&[]).await;
    site.write([lock("a")]).await;
    let page = site.open("locks").await;
    keys(&page, &["a"]).await;
    site.serve.kill();
    text(&page, "This page cannot reach its server").await;
    state(&page, "lost").await;
    ages(&page).await;
    assert_eq!(
        page.eval("document.querySelector('#retry').hidden").await,
        false
    );
    assert_eq!(page.eval(KEYS).await, serde_json::json!(["a"]));

    site.serve_again().await;
    site.write([lock("b")]).await;
    text(&page, "The server answers again").await;
    keys(&page, &["a", "b"]).await;

    // At once, if the reader does not want to wait: here for ever.
    page.eval("window.setTimeout = () => 0").await;
    site.serve.kill();
    state(&page, "lost").await;
    site.serve_again().await;
    page.click("#retry").await;
    state(&page, "live").await;
    let unexpected: Vec<_> = page
        .complaints()
        .into_iter()
        .filter(|it| !it.starts_with("\"network\""))
        .collect();
    assert_eq!(unexpected, [""; 0]);
}
