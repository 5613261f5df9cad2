//! The release of a lock by force.

use dlock::{LockError, Wait};
use serde_json::json;

use super::site::{Site, UNLOCKS};
use super::{keys, text};

const RESULT: &str = "document.querySelector('dialog.unlock .result').textContent";

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

    page.click(".action button").await;
    page.until("document.activeElement.id === 'unlock-key'")
        .await;
    page.enter("order:2").await;
    page.press("Enter").await;
    page.until(&format!("{RESULT}.includes('differs')")).await;
    page.eval("document.querySelector('#unlock-key').select()")
        .await;
    page.enter("order:1").await;
    page.press("Tab").await;
    page.enter("wrong").await;
    page.press("Enter").await;
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
    page.click(".action button").await;
    page.until("document.activeElement.id === 'unlock-key'")
        .await;
    page.enter("order:1").await;
    page.press("Tab").await;
    page.enter(&token).await;
    page.press("Enter").await;
    page.until("document.querySelector('dialog.unlock .result').dataset.kind === 'done'")
        .await;
    assert!(matches!(guard.lost().await, LockError::Lost { .. }));
    let next = waiter.await.expect("it ends").expect("it was its turn");
    page.press("Enter").await;
    page.until("document.querySelector('dialog[open]') === null")
        .await;
    page.until("document.querySelector('.holders tbody tr').innerText.includes('mail@')")
        .await;
    next.release().await.expect("the server answers");
    assert!(
        !page.requests().iter().any(|it| it.contains(&token)),
        "the token is in an address"
    );
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
    let request = json!({"key": "order:1", "typed": "order:1", "owner": null, "fence": guard.fencing_token().to_string()});
    let call = format!(
        "fetch('api/unlock', {{ method: 'POST', headers: {{ 'content-type': 'application/json', authorization: 'Bearer x' }}, \
         body: JSON.stringify({request}) }}).then((it) => it.status)"
    );
    assert_eq!(page.eval(&call).await, 403);
    guard.release().await.expect("the lock is still held");
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
    page.click(".action button").await;
    page.until("document.activeElement.id === 'unlock-key'")
        .await;
    page.enter("a\\u{202e}b").await;
    page.press("Tab").await;
    page.enter(&token).await;
    page.press("Enter").await;
    page.until("document.querySelector('dialog.unlock .result').dataset.kind === 'done'")
        .await;
    assert!(site.server.keys("dlock:{a*").await.is_empty());
    site.assert_clean(&page);
}
