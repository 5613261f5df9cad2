//! Tests of `dlock serve` in a browser, with the built program and real servers.

mod fleet;
mod hostile;
mod list;
mod lock;
mod looks;
mod outage;
mod pictures;
mod site;
mod unlock;
mod views;

use std::time::Duration;

use dlock_testkit::Page;
use serde_json::json;

/// A generous limit, for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The keys of the list, as they are shown, in their order.
const KEYS: &str =
    "[...document.querySelectorAll('.locks tbody td.key')].map((it) => it.textContent)";

/// Waits until the page shows the state of the store in this word.
async fn state(page: &Page, word: &str) {
    let is = format!("document.querySelector('#state').dataset.state === '{word}'");
    page.until(&is).await;
}

/// Waits until the page shows a text.
#[track_caller]
fn text<'a>(page: &'a Page, text: &'a str) -> impl Future<Output = ()> + 'a {
    page.until(format!("document.body.innerText.includes({})", json!(text)))
}

/// Waits until the list has exactly these keys.
#[track_caller]
fn keys<'a>(page: &'a Page, keys: &[&str]) -> impl Future<Output = ()> + 'a {
    page.until(format!(
        "JSON.stringify({KEYS}) === JSON.stringify({})",
        json!(keys)
    ))
}
