//! The processes, and the findings of the doctor.

use dlock_testkit::Browser;

use super::site::Site;
use super::{keys, text};

#[tokio::test]
async fn processes_are_shown_with_what_they_hold() {
    let site = Site::start(&[]).await;
    let manager = site.manager("orders").await;
    let one = manager.lock("order:1").acquire().await.expect("it is free");
    let two = manager.lock("order:2").acquire().await.expect("it is free");
    let page = site.open("processes").await;
    page.until("document.querySelector('tbody tr')?.cells[6].textContent === '2'")
        .await;
    let row = page
        .text("document.querySelector('tbody tr').innerText")
        .await;
    let pid = std::process::id().to_string();
    for part in ["orders", &pid, env!("CARGO_PKG_VERSION")] {
        assert!(row.contains(part), "no `{part}`: {row}");
    }
    let started = page
        .text("document.querySelector('tbody time').title")
        .await;
    assert!(started.ends_with("UTC+00:00"), "{started}");

    // The number of its locks leads to them.
    page.click("tbody td.number a").await;
    keys(&page, &["order:1", "order:2"]).await;
    assert!(
        page.text("document.querySelector('#filter').value")
            .await
            .starts_with("orders@")
    );
    one.release().await.expect("the server answers");
    two.release().await.expect("the server answers");
    site.assert_clean(&page);
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_is_not_called_free() {
    let site = Site::start(&[]).await;
    let mut connection = site.server.connection().await;
    let written: Result<(), _> = redis::cmd("SADD")
        .arg(&["dlock:{odd}", "it is a set"])
        .query_async(&mut connection)
        .await;
    written.expect("the server answers");
    let page = Browser::shared().await.open().await;
    page.go(&format!("{}lock?key=odd", site.url)).await;
    text(&page, "This lock could not be read: ").await;
    let badge = "document.querySelector('.title .badge').textContent";
    assert_eq!(page.text(badge).await, "…");
    assert_eq!(
        page.eval("document.body.innerText.includes('This lock is free')")
            .await,
        false
    );
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_reason() {
    let site = Site::start(&[]).await;
    let page = Browser::shared().await.open().await;
    page.go(&format!("{}lock?key=", site.url)).await;
    text(&page, "The server refuses this page: ").await;
    let banner = page
        .text("document.querySelector('#banner-text').textContent")
        .await;
    assert!(!banner.contains("tries again"), "{banner}");
}

#[tokio::test]
async fn two_rows_with_one_key_stay_two() {
    let site = Site::start(&[]).await;
    let page = site.open("locks").await;
    let shown = "(async () => {
        const { keyed } = await import('./assets/dom.js');
        const parent = document.createElement('div');
        const show = (items) => keyed(parent, items, (it) => it, () => document.createElement('p'),
            (element, it) => { element.textContent = it; });
        for (const items of [['a', 'a', 'b'], ['b', 'a', 'a'], ['a', 'b', 'a']]) {
            show(items);
        }
        return [...parent.children].map((it) => it.textContent).join('');
    })()";
    assert_eq!(page.eval(shown).await, "aba");
    site.assert_clean(&page);
}

#[tokio::test]
async fn findings_have_a_grade_and_a_remedy() {
    let server = dlock_testkit::RedisServer::start_with(&[
        "--maxmemory",
        "100mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ])
    .await;
    let site = Site::before(server, &[]).await;
    let page = site.open("doctor").await;
    page.until("document.querySelectorAll('.findings li').length > 3")
        .await;
    text(&page, "maxmemory-policy").await;
    // The worst one is the first, of whatever server it is.
    let worst = page
        .text("document.querySelector('.findings li').innerText")
        .await;
    assert!(worst.contains("Remedy:"), "{worst}");
    let graded = "[...document.querySelectorAll('.findings li')].every((it) => it.querySelector('.grade').innerText.includes(it.dataset.grade))";
    assert_eq!(page.eval(graded).await, true);
    page.click(".title button").await;
    page.until("!document.querySelector('.title button').disabled")
        .await;
    site.assert_clean(&page);
}
