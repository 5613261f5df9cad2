//! The browser of the tests.

use dlock_testkit::Browser;

#[tokio::test]
async fn a_page_is_shown_and_used() {
    let page = Browser::shared().await.open().await;
    page.go("data:text/html,<input><button onclick='this.textContent=document.querySelector(`input`).value'>no</button>").await;
    page.eval("document.querySelector('input').focus()").await;
    page.enter("yes").await;
    page.click("button").await;
    page.until("document.querySelector('button').textContent === 'yes'")
        .await;
    assert_eq!(page.complaints(), [""; 0]);
    page.eval("console.error('it is wrong')").await;
    page.until("true").await;
    assert!(page.complaints()[0].contains("it is wrong"));
    assert!(page.requests()[0].starts_with("data:"));
    assert!(page.picture().await.starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn pages_of_two_tests_do_not_see_each_other() {
    let browser = Browser::shared().await;
    let (one, other) = (browser.open().await, browser.open().await);
    one.go("data:text/html,one").await;
    other.go("data:text/html,other").await;
    assert_eq!(one.text("document.body.innerText").await, "one");
    assert_eq!(other.text("document.body.innerText").await, "other");
}
