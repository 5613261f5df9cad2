//! The page while the store, or the program itself, is unreachable, and afterwards.

use dlock_testkit::Browser;

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
async fn a_page_that_is_opened_in_an_outage_does_not_say_that_all_is_free() {
    let site = Site::start(&[]).await;
    site.server.kill();
    for (view, unknown) in [
        (
            "locks",
            "The locks are unknown: the store was not read yet.",
        ),
        ("locks?filter=a", "The locks are unknown"),
        (
            "processes",
            "The processes are unknown: the store was not read yet.",
        ),
    ] {
        let page = Browser::shared().await.open().await;
        page.go(&format!("{}{view}", site.url)).await;
        state(&page, "away").await;
        text(&page, unknown).await;
        for word in ["No lock", "No process"] {
            let says = format!("document.body.innerText.includes('{word}')");
            assert_eq!(page.eval(&says).await, false, "{view}");
        }
    }
}

#[tokio::test]
async fn an_empty_view_says_what_was_read_and_when() {
    let site = Site::start(&["--namespace", "orders"]).await;
    let (list, processes) = (site.open("locks").await, site.open("processes").await);
    let lock = site.open("lock?key=a").await;
    let read = format!("from 127.0.0.1:{}, namespace orders.", site.server.port());
    for (page, is) in [
        (&list, "No lock is held or awaited. Read at "),
        (&processes, "No process holds or awaits a lock. Read at "),
        (&lock, "waits for it. Read at "),
    ] {
        text(page, is).await;
        text(page, &read).await;
    }
    site.server.kill();
    for (page, was) in [
        (
            &list,
            "No lock was held or awaited when the store was last read. Read at ",
        ),
        (&lock, "This lock was free when it was last read. Read at "),
    ] {
        text(page, was).await;
        text(page, &read).await;
    }
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
