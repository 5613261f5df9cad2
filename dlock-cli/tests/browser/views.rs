//! The processes, and the findings of the doctor.

use dlock::Wait;
use dlock_testkit::Browser;

use super::site::Site;
use super::{keys, state, text};

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
    page.click("tbody td[data-label='Holds'] a").await;
    keys(&page, &["order:1", "order:2"]).await;
    assert!(
        page.text("document.querySelector('#filter').value")
            .await
            .starts_with("orders@")
    );

    // So does the number of those that it waits for, and they say who holds them.
    let mail = site.manager("mail").await;
    let waiter = tokio::spawn(mail.lock("order:2").wait(Wait::Forever).acquire());
    let third = mail.lock("mail:7").acquire().await.expect("it is free");
    page.go(&format!("{}processes", site.url)).await;
    let waits = "[...document.querySelectorAll(\"td[data-label='Waits'] a[href]\")]";
    page.until(format!("{waits}.length === 1")).await;
    page.click("td[data-label='Waits'] a[href]").await;
    keys(&page, &["order:2"]).await;
    let row = page
        .text("document.querySelector('tbody tr').innerText")
        .await;
    assert!(row.contains("orders@"), "{row}");
    assert_eq!(
        page.eval("document.querySelector('#by').value").await,
        "waiter"
    );
    one.release().await.expect("the server answers");
    two.release().await.expect("the server answers");
    let guard = waiter.await.expect("it ends").expect("it was its turn");
    guard.release().await.expect("the server answers");
    third.release().await.expect("the server answers");
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

/// Counts the timers of a page that are still to come.
const TIMERS: &str = "window.timers = new Set();
    const [set, clear] = [window.setTimeout, window.clearTimeout];
    window.setTimeout = (call, time) => {
        const timer = set(() => { window.timers.delete(timer); call(); }, time);
        window.timers.add(timer);
        return timer;
    };
    window.clearTimeout = (timer) => { window.timers.delete(timer); clear(timer); };";

#[tokio::test]
async fn a_refusal_is_final_and_an_outage_is_not() {
    let mut site = Site::start(&[]).await;
    let page = site.open_with(TIMERS, "lock?key=").await;
    text(&page, "The server refuses this page: ").await;
    // A page that asked once more later would wait for that now.
    assert_eq!(page.eval("window.timers.size").await, 0);
    let asked = |page: &dlock_testkit::Page| {
        let requests = page.requests();
        let events = requests.iter().filter(|it| it.contains("/events"));
        events.count()
    };
    // The stream, and the question why there is none.
    assert_eq!(asked(&page), 2);

    let page = site.open_with(TIMERS, "locks").await;
    state(&page, "live").await;
    site.serve.kill();
    text(&page, "It tries again by itself.").await;
    page.until("window.timers.size > 0").await;
    site.serve_again().await;
    state(&page, "live").await;
}

/// Lets a page believe that it is in a tab in the background.
const HIDDEN: &str = "window.background = true;
    Object.defineProperty(Document.prototype, 'hidden', { get: () => window.background });";

#[tokio::test]
async fn a_tab_in_the_background_opens_no_stream_until_it_is_seen() {
    let site = Site::start(&[]).await;
    let page = site.open_with(HIDDEN, "locks").await;
    // A request of the script after that of the stream, if there were one.
    page.until("document.querySelector('main .locks')").await;
    assert_eq!(
        page.eval("fetch('api/doctor').then((it) => it.status)")
            .await,
        200
    );
    let has_stream = |page: &dlock_testkit::Page| {
        let requests = page.requests();
        requests.iter().any(|it| it.contains("/events"))
    };
    assert!(!has_stream(&page), "{:?}", page.requests());
    let see = "window.background = false; document.dispatchEvent(new Event('visibilitychange'))";
    page.eval(see).await;
    state(&page, "live").await;
    assert!(has_stream(&page));
    site.assert_clean(&page);
}

#[tokio::test]
async fn a_large_store_is_late_later() {
    let site = Site::start(&[]).await;
    let page = site.open_with(HIDDEN, "locks").await;
    let state_of = async |picture: &str| {
        // The page itself does not write in between.
        let told = format!(
            "(async () => {{
                const {{ Status }} = await import('./assets/status.js');
                const status = new Status(() => {{}});
                const picture = {{ state: 'live', progress: null, reason: null, away_ms: null, interval_ms: 2000, {picture} }};
                status.heard({{ picture, server: {{}} }}, true);
                return document.querySelector('#state').dataset.state;
            }})()"
        );
        page.text(&told).await
    };
    assert_eq!(state_of("age_ms: 8000, took_ms: 100").await, "live");
    assert_eq!(state_of("age_ms: 10000, took_ms: 100").await, "late");
    assert_eq!(state_of("age_ms: 40000, took_ms: 20000").await, "live");
    assert_eq!(state_of("age_ms: 50000, took_ms: 20000").await, "late");
    site.assert_clean(&page);
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
