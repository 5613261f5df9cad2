//! The list of locks: what it shows, in which order, and as its address says.

use dlock::Wait;
use dlock_testkit::{Browser, Page, eventually};
use serde_json::json;

use super::site::Site;
use super::{KEYS, LIMIT, keys, state, text};

/// Ten thousand locks of three applications.
async fn many(site: &Site) {
    let applications = ["orders", "billing", "reports"];
    let lock = |number: usize| {
        let application = applications[number % 3];
        (
            format!("job:{number:05}"),
            format!(
                "{application}@web-{}/{}#{application}::run",
                number % 7,
                4000 + number % 7
            ),
        )
    };
    site.write((0..10_000).map(lock)).await;
}

#[tokio::test]
async fn ten_thousand_locks_are_filtered_sorted_and_read_by_pages() {
    let site = Site::start(&[]).await;
    many(&site).await;
    let page = site.open("").await;
    text(&page, "1–50 of 10,000").await;
    assert_eq!(page.eval(&format!("{KEYS}[0]")).await, "job:00000");
    assert_eq!(page.eval(&format!("{KEYS}.length")).await, 50);

    page.click(".pages a:last-child").await;
    text(&page, "9,951–10,000 of 10,000").await;
    assert_eq!(page.eval(&format!("{KEYS}[49]")).await, "job:09999");
    assert_eq!(page.eval("location.search").await, "?page=200");

    page.press("/").await;
    page.enter("billing").await;
    text(&page, "1–50 of 3,333").await;
    assert_eq!(page.eval(&format!("{KEYS}[0]")).await, "job:00001");
    page.until("location.search === '?filter=billing'").await;

    page.click("a[data-sort='key']").await;
    page.until(&format!("{KEYS}[0] === 'job:09997'")).await;
    assert_eq!(
        page.eval("document.querySelector('th[aria-sort]').getAttribute('aria-sort')")
            .await,
        "descending"
    );

    // The address is all that another reader needs.
    let address = page.text("location.href").await;
    let other = Browser::shared().await.open().await;
    other.go(&address).await;
    other.until(&format!("{KEYS}[0] === 'job:09997'")).await;
    assert_eq!(
        other.eval("document.querySelector('#filter').value").await,
        "billing"
    );

    page.eval("history.back()").await;
    page.until(&format!("{KEYS}[0] === 'job:00001'")).await;
    page.eval("history.back()").await;
    text(&page, "9,951–10,000 of 10,000").await;
    assert_eq!(
        page.eval("document.querySelector('#filter').value").await,
        ""
    );
    page.eval("history.forward()").await;
    text(&page, "1–50 of 3,333").await;
    assert_eq!(
        page.eval("document.querySelector('#filter').value").await,
        "billing"
    );

    page.press("/").await;
    page.press("Escape").await;
    text(&page, "1–50 of 10,000").await;
    page.press("/").await;
    page.enter("job:*77").await;
    text(&page, "1–50 of 100").await;
    site.assert_clean(&page);
    site.assert_clean(&other);
}

#[tokio::test]
async fn changes_are_shown_as_they_happen_and_keep_focus_and_place() {
    let site = Site::start(&[]).await;
    let (orders, mail) = (site.manager("orders").await, site.manager("mail").await);
    let page = site.open("locks").await;
    text(&page, "No lock is held or awaited.").await;
    let second = orders.lock("order:2").acquire().await.expect("it is free");
    keys(&page, &["order:2"]).await;
    page.eval("document.querySelector('td.key a').focus()")
        .await;
    page.eval("window.marked = document.querySelector('tbody tr')")
        .await;

    let first = orders.lock("order:1").acquire().await.expect("it is free");
    keys(&page, &["order:1", "order:2"]).await;
    assert_eq!(
        page.eval("document.activeElement.textContent").await,
        "order:2"
    );
    assert_eq!(
        page.eval("window.marked === document.querySelectorAll('tbody tr')[1]")
            .await,
        true
    );

    let waiter = tokio::spawn(mail.lock("order:1").wait(Wait::Forever).acquire());
    page.until("document.querySelector('tbody tr').innerText.includes('orders@') && document.querySelector('tbody .busy')?.textContent === '1'").await;
    first.release().await.expect("the server answers");
    let guard = waiter.await.expect("it ends").expect("it was its turn");
    page.until("document.querySelector('tbody tr').innerText.includes('mail@')")
        .await;

    // The row with the focus disappears: the focus stays in the list.
    page.eval("document.querySelectorAll('td.key a')[1].focus()")
        .await;
    second.release().await.expect("the server answers");
    keys(&page, &["order:1"]).await;
    page.until("document.activeElement.textContent === 'order:1'")
        .await;
    guard.release().await.expect("the server answers");
    text(&page, "No lock is held or awaited.").await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn stopped_updates_stay_until_they_continue() {
    let site = Site::start(&[]).await;
    site.write([("a".to_owned(), "x@h/1".to_owned())]).await;
    let page = site.open("locks").await;
    keys(&page, &["a"]).await;
    page.press("p").await;
    state(&page, "paused").await;
    site.write([
        ("a".to_owned(), "x@h/1".to_owned()),
        ("b".to_owned(), "x@h/1".to_owned()),
    ])
    .await;
    let other = site.open("locks").await;
    keys(&other, &["a", "b"]).await;
    assert_eq!(page.eval(KEYS).await, json!(["a"]));
    page.click("#pause").await;
    keys(&page, &["a", "b"]).await;
    state(&page, "live").await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn two_pages_share_one_reading_of_the_store() {
    let site = Site::start(&[]).await;
    site.write([("a".to_owned(), "x@h/1".to_owned())]).await;
    let (one, other) = (site.open("locks").await, site.open("locks?filter=a").await);
    let clients = async || {
        site.server
            .read::<String>(redis::cmd("CLIENT").arg("LIST"))
            .await
            .lines()
            .count()
    };
    let before = clients().await;
    let third = site.open("lock?key=a").await;
    assert_eq!(clients().await, before);
    // Each page gets the pictures of the same instants. One may begin late, and miss some.
    let listen = "window.taken = []; new EventSource('api/picture/events').addEventListener('picture', \
                  ({ data }) => window.taken.push(JSON.parse(data).picture.taken)); 1";
    one.eval(listen).await;
    other.eval(listen).await;
    let taken = async |page: &Page| {
        let all = page.eval("window.taken").await;
        serde_json::from_value::<Vec<String>>(all).expect("they are texts")
    };
    eventually(LIMIT, "three pictures are the same", async || {
        let (first, second) = (taken(&one).await, taken(&other).await);
        first.iter().filter(|it| second.contains(it)).count() >= 3
    })
    .await;
    for page in [&one, &other, &third] {
        site.assert_clean(page);
    }
}
