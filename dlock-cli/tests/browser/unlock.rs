//! The release of a lock by force.

use dlock::{LockError, Wait};
use dlock_testkit::Page;
use serde_json::json;

use super::site::{Site, UNLOCKS};
use super::{keys, text};

const RESULT: &str = "document.querySelector('dialog.unlock .result').textContent";

/// The lock has been released, and the dialog says so.
const DONE: &str = "document.querySelector('dialog.unlock .result').dataset.kind === 'done'";

/// Opens the dialog, and waits until a key can be typed.
async fn open_dialog(page: &Page) {
    page.click(".action button").await;
    page.until("document.activeElement.id === 'unlock-key'")
        .await;
}

/// Types the key and the token into the dialog, and sends them.
async fn confirm(page: &Page, key: &str, token: &str) {
    page.enter(key).await;
    page.press("Tab").await;
    page.enter(token).await;
    page.press("Enter").await;
}

#[tokio::test]
async fn a_lock_is_released_with_its_key_and_the_token() {
    let site = Site::start(UNLOCKS).await;
    let token = site.token.clone().expect("a token was drawn");
    let (orders, mail) = (site.manager("orders").await, site.manager("mail").await);
    let guard = orders.lock("order:1").acquire().await.expect("it is free");
    let waiter = tokio::spawn(mail.lock("order:1").wait(Wait::Forever).acquire());
    let page = site.open("lock?key=order%3A1").await;
    page.until("document.querySelectorAll('.queue tbody tr').length === 1")
        .await;

    open_dialog(&page).await;
    let hint = page
        .text("document.querySelector('dialog.unlock .hint').textContent")
        .await;
    assert!(hint.contains("notified at once"), "{hint}");
    page.enter("order:2").await;
    page.press("Enter").await;
    page.until(&format!("{RESULT}.includes('differs')")).await;
    page.eval("document.querySelector('#unlock-key').select()")
        .await;
    confirm(&page, "order:1", "wrong").await;
    page.until(&format!("{RESULT}.includes('The token is wrong')"))
        .await;
    let refused = page.complaints();
    assert!(
        refused.iter().all(|it| it.contains("401")) && !refused.is_empty(),
        "{refused:?}"
    );

    // Typed text does not outlive the dialog.
    page.press("Escape").await;
    page.until("document.querySelector('dialog[open]') === null")
        .await;
    page.until("document.querySelector('#unlock-token').value === ''")
        .await;
    open_dialog(&page).await;
    confirm(&page, "order:1", &token).await;
    page.until(DONE).await;
    assert!(matches!(guard.lost().await, LockError::Lost { .. }));
    let next = waiter.await.expect("it ends").expect("it was its turn");
    page.press("Enter").await;
    page.until("document.querySelector('dialog[open]') === null")
        .await;
    page.until("document.querySelector('.holders tbody tr').innerText.includes('mail@')")
        .await;
    page.click("details summary").await;
    page.until("[...document.querySelectorAll('details tbody tr')].some((it) => it.innerText.includes('released by force by 127.0.0.1:'))")
        .await;
    next.release().await.expect("the server answers");
    assert!(
        !page.requests().iter().any(|it| it.contains(&token)),
        "the token is in an address"
    );
}

/// The element that had the focus when the dialog was opened can be gone when it closes, or later.
#[tokio::test]
async fn the_focus_returns_to_the_button_or_to_the_content() {
    const BUTTON: &str = "document.activeElement === document.querySelector('.action button')";

    let site = Site::start(UNLOCKS).await;
    let token = site.token.clone().expect("a token was drawn");
    let lock = || [("order:1".to_owned(), "x@h/1".to_owned())];
    let page = site.open("lock?key=order%3A1").await;
    for is_paused in [false, true] {
        site.write(lock()).await;
        page.until("document.querySelector('.action button')?.offsetParent")
            .await;
        open_dialog(&page).await;
        page.press("Escape").await;
        page.until(BUTTON).await;
        if is_paused {
            page.press("p").await;
        }
        open_dialog(&page).await;
        confirm(&page, "order:1", &token).await;
        page.until(DONE).await;
        let is_gone = "document.querySelectorAll('.holders tbody tr').length === 0";
        if !is_paused {
            page.until(is_gone).await;
        }
        page.press("Enter").await;
        page.until("document.querySelector('dialog[open]') === null")
            .await;
        if is_paused {
            page.until(BUTTON).await;
            // A call moves no focus.
            page.eval("document.querySelector('#pause').click()").await;
            page.until(is_gone).await;
        }
        page.until("document.activeElement.id === 'main'").await;
    }
    site.assert_clean(&page);
}

#[tokio::test]
async fn a_program_that_may_not_unlock_offers_and_does_nothing() {
    let site = Site::start(&[]).await;
    let manager = site.manager("orders").await;
    let guard = manager.lock("order:1").acquire().await.expect("it is free");
    let page = site.open("lock?key=order%3A1").await;
    text(&page, "orders@").await;
    assert_eq!(page.eval("[...document.querySelectorAll('button')].filter((it) => it.offsetParent && it.textContent.includes('Unlock')).length").await, 0);
    site.assert_clean(&page);
    let request = json!({"key": "order:1", "typed": "order:1", "handle": null, "token": guard.fencing_token().to_string()});
    let call = format!(
        "fetch('api/unlock', {{ method: 'POST', headers: {{ 'content-type': 'application/json', authorization: 'Bearer x' }}, \
         body: JSON.stringify({request}) }}).then((it) => it.status)"
    );
    assert_eq!(page.eval(&call).await, 403);
    guard.release().await.expect("the lock is still held");
}

#[tokio::test]
async fn a_lease_of_a_third_party_client_is_left_to_the_command() {
    let site = Site::start(UNLOCKS).await;
    let mut connection = site.server.connection().await;
    let mut set = redis::cmd("SET");
    let set = set
        .arg(&["dlock:{order:1}", "third-party", "PX", "900000"])
        .exec_async(&mut connection);
    set.await.expect("the server writes");
    let page = site.open("lock?key=order%3A1").await;
    page.until("document.querySelector('.action button')?.offsetParent")
        .await;
    let button = "(({ disabled, textContent }) => [disabled, textContent])(document.querySelector('.action button'))";
    assert_eq!(
        page.eval(button).await,
        json!([true, "Only by dlock unlock"])
    );
    page.click(".action button").await;
    assert_eq!(
        page.eval("document.querySelector('dialog[open]') === null")
            .await,
        true
    );

    // The same row, when dlock holds the lock.
    site.write([("order:1".to_owned(), "x@h/1".to_owned())])
        .await;
    page.until("document.querySelector('.action button')?.textContent === 'Unlock…'")
        .await;
    assert_eq!(page.eval(button).await, json!([false, "Unlock…"]));
    page.click(".action button").await;
    page.until("document.querySelector('dialog[open]')").await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn an_answer_that_comes_late_is_not_shown_for_another_holder() {
    let site = Site::start(UNLOCKS).await;
    site.write([("order:1".to_owned(), "x@h/1".to_owned())])
        .await;
    let page = site.open("lock?key=order%3A1").await;
    page.eval("window.fetch = (_, { headers }) => new Promise((done, failed) => { window.answer = { done, failed }; window.sent = headers; }); 1")
        .await;
    for (answer, without_closing) in [
        (
            "answer.done({ ok: true, status: 200, json: async () => ({ outcome: 'freed', text: 'The lease was ended' }) })",
            "The lease was ended",
        ),
        (
            "answer.done({ ok: false, status: 401, json: async () => ({ error: 'wrong token' }) })",
            "The token is wrong: wrong token",
        ),
        (
            "answer.failed(new TypeError('none'))",
            "The server cannot be reached: whether the lock was released is unknown.",
        ),
    ] {
        let come = format!("{answer}; new Promise((done) => setTimeout(done))");
        for is_closed in [false, true] {
            open_dialog(&page).await;
            confirm(&page, "order:1", "a token of this test").await;
            page.until("window.answer").await;
            // A proxy before the page may have a use for `authorization`.
            let sent = "window.sent['x-dlock-token'] === 'a token of this test' && !('authorization' in window.sent)";
            assert_eq!(page.eval(sent).await, true);
            if is_closed {
                page.press("Escape").await;
                page.until("document.querySelector('dialog[open]') === null")
                    .await;
                open_dialog(&page).await;
            }
            page.eval(&come).await;
            let told = if is_closed { "" } else { without_closing };
            assert_eq!(page.text(RESULT).await, told);
            assert_eq!(
                page.eval("document.querySelector('dialog.unlock [type=submit]').disabled")
                    .await,
                false
            );
            page.eval("window.answer = null").await;
            page.press("Escape").await;
            page.until("document.querySelector('dialog[open]') === null")
                .await;
        }
    }
    site.assert_clean(&page);
}

/// A browser tells of the end of a dialog when its other work is done.
#[tokio::test]
async fn a_dialog_that_is_opened_again_at_once_is_empty_and_knows_its_holder() {
    let site = Site::start(UNLOCKS).await;
    site.write([("order:1".to_owned(), "x@h/1".to_owned())])
        .await;
    let page = site.open("lock?key=order%3A1").await;
    open_dialog(&page).await;
    page.enter("order:2").await;
    let again = "new Promise((done) => { const dialog = document.querySelector('dialog.unlock'); \
         dialog.addEventListener('close', () => setTimeout(() => done(document.querySelector('#unlock-key').value)), { once: true }); \
         dialog.close(); document.querySelector('.action button').click(); })";
    assert_eq!(page.text(again).await, "");
    let token = site.token.as_ref().expect("a token was drawn");
    confirm(&page, "order:1", token).await;
    page.until(DONE).await;
    site.assert_clean(&page);
}

#[tokio::test]
async fn a_key_that_cannot_be_typed_is_typed_as_it_is_shown() {
    let site = Site::start(UNLOCKS).await;
    let token = site.token.clone().expect("a token was drawn");
    site.write([("a\u{202e}b".to_owned(), "x@h/1".to_owned())])
        .await;
    let page = site.open("locks").await;
    keys(&page, &["a\\u{202e}b"]).await;
    page.click("td.key a").await;
    open_dialog(&page).await;
    confirm(&page, "a\\u{202e}b", &token).await;
    page.until(DONE).await;
    assert!(site.server.keys("dlock:{a*").await.is_empty());
    site.assert_clean(&page);
}
