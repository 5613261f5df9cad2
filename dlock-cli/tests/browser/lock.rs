//! The page of a lock: its holders, its queue, and its last minutes.

use std::time::Duration;

use dlock::{LockManager, Wait};
use dlock_testkit::eventually;

use super::site::Site;
use super::{LIMIT, keys, text};

const HOLDERS: &str =
    "[...document.querySelectorAll('.holders tbody tr')].map((it) => it.innerText)";

/// Waits until so many wait for a key.
async fn queue(site: &Site, key: &str, length: usize) {
    eventually(LIMIT, "they wait", async || {
        let command = redis::cmd("ZCARD")
            .arg(format!("dlock:{{{key}}}:q"))
            .to_owned();
        site.server.read::<usize>(&command).await == length
    })
    .await;
}

#[tokio::test]
async fn holder_and_queue_are_shown_in_their_order() {
    let site = Site::start(&[]).await;
    let mut managers = Vec::new();
    for application in ["orders", "mail", "stock"] {
        managers.push(site.manager(application).await);
    }
    let guard = managers[0]
        .lock("order:1")
        .acquire()
        .await
        .expect("it is free");
    let first = tokio::spawn(managers[1].lock("order:1").wait(Wait::Forever).acquire());
    queue(&site, "order:1", 1).await;
    let second = tokio::spawn(managers[2].lock("order:1").wait(Wait::Forever).acquire());
    queue(&site, "order:1", 2).await;

    let page = site.open("locks").await;
    keys(&page, &["order:1"]).await;
    page.click("td.key a").await;
    page.until("document.querySelector('h1').textContent === 'order:1'")
        .await;
    page.until("document.querySelectorAll('.queue tbody tr').length === 2")
        .await;
    assert_eq!(page.eval("location.search").await, "?key=order%3A1");
    assert_eq!(page.eval("document.title").await, "order:1 · dlock");
    let token = guard.fencing_token().to_string();
    let holder = page.text(&format!("{HOLDERS}.join()")).await;
    assert!(
        holder.contains("orders@") && holder.contains(&token),
        "{holder}"
    );
    let waiters = page.eval("[...document.querySelectorAll('.queue tbody tr')].map((it) => it.cells[1].textContent.split('@')[0])").await;
    assert_eq!(waiters, serde_json::json!(["mail", "stock"]));
    assert_eq!(
        page.eval("document.querySelectorAll('.action button:not([hidden])').length")
            .await,
        0
    );

    guard.release().await.expect("the server answers");
    let guard = first.await.expect("it ends").expect("it was its turn");
    page.until(&format!("{HOLDERS}.join().includes('mail@') && document.querySelectorAll('.queue tbody tr').length === 1")).await;
    guard.release().await.expect("the server answers");
    second
        .await
        .expect("it ends")
        .expect("it was its turn")
        .release()
        .await
        .expect("the server answers");
    text(&page, "This lock is free").await;

    // Back to the list, where the row that was opened would have the focus.
    page.press("Escape").await;
    text(&page, "No lock is held or awaited.").await;
    assert_eq!(page.eval("location.pathname").await, "/locks");
    site.assert_clean(&page);
}

#[tokio::test]
async fn the_time_line_draws_holders_waits_renewals_and_losses() {
    let site = Site::start(&[]).await;
    let page = site.open("lock?key=job").await;
    let short = async |application: &str| {
        let builder = LockManager::builder()
            .application(application)
            .ttl(Duration::from_secs(6));
        builder
            .connect(&site.server.url())
            .await
            .expect("the server runs")
    };
    let (orders, mail) = (short("orders").await, short("mail").await);
    let guard = orders.lock("job").acquire().await.expect("it is free");
    text(&page, "orders@").await;
    let waiter = tokio::spawn(mail.lock("job").wait(Wait::Forever).acquire());
    // A wait that was not observed in time is drawn in parts.
    page.until("document.querySelectorAll('svg .wait').length > 0")
        .await;
    page.until("document.querySelectorAll('svg .hold.now .tick').length > 0")
        .await;
    guard.release().await.expect("the server answers");
    let guard = waiter.await.expect("it ends").expect("it was its turn");
    page.until("document.querySelectorAll('svg .hold').length >= 2")
        .await;
    page.until("[...document.querySelectorAll('svg title')].some((it) => /orders@.* held it for .*granted to the next waiter/.test(it.textContent))").await;

    // The lease of the second holder is taken from it by an operator.
    let mut connection = site.server.connection().await;
    let mut delete = redis::cmd("DEL");
    let deleted = delete.arg("dlock:{job}").exec_async(&mut connection);
    deleted.await.expect("the server writes");
    guard.lost().await;
    page.until("document.querySelector('svg .hold.now') === null")
        .await;

    page.click("details summary").await;
    page.until("document.querySelectorAll('details tbody tr').length >= 3")
        .await;
    let rows = page.text("[...document.querySelectorAll('details tbody tr')].map((it) => it.innerText).join('\\n')").await;
    for part in [
        "orders@",
        "mail@",
        "waited",
        "became the holder",
        "granted to the next waiter",
    ] {
        assert!(rows.contains(part), "no `{part}`:\n{rows}");
    }
    // It says how much is drawn.
    page.until("(() => { const drawing = document.querySelector('svg[role=img]'); const count = (it) => drawing.querySelectorAll(it).length; const said = drawing.getAttribute('aria-label').match(/: (\\d+) holders? and (\\d+) waits? of 2 processes, /); return said && Number(said[1]) === count('.hold') && Number(said[2]) === count('.wait'); })()")
        .await;

    page.click("button[data-span='60']").await;
    page.until("location.search.includes('span=60') && document.querySelector('button[data-span=\"60\"]').getAttribute('aria-pressed') === 'true'").await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn one_of_a_kind_is_said_in_the_singular() {
    let site = Site::start(&[]).await;
    site.write([("order:1".to_owned(), "x@h/1".to_owned())])
        .await;
    let page = site.open("locks").await;
    page.press("/").await;
    page.enter("order").await;
    page.until("document.querySelector('#said').textContent === '1 lock matches'")
        .await;
    page.click("td.key a").await;
    page.until("/: 1 holder and 0 waits of 1 process, 0 leases lost/.test(document.querySelector('svg[role=img]')?.getAttribute('aria-label'))")
        .await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn all_holders_of_a_shared_lock_are_shown() {
    let site = Site::start(&[]).await;
    let (one, other) = (site.manager("one").await, site.manager("other").await);
    let first = one
        .lock("report")
        .shared()
        .acquire()
        .await
        .expect("it is free");
    let second = other
        .lock("report")
        .shared()
        .acquire()
        .await
        .expect("it is shared");
    let page = site.open("locks").await;
    text(&page, "shared ×2").await;
    page.click("td.key a").await;
    page.until(&format!("{HOLDERS}.length === 2 && {HOLDERS}.join().includes('one@') && {HOLDERS}.join().includes('other@')")).await;
    first.release().await.expect("the server answers");
    page.until(&format!(
        "{HOLDERS}.length === 1 && {HOLDERS}[0].includes('other@')"
    ))
    .await;
    second.release().await.expect("the server answers");
    site.assert_clean(&page);
}
