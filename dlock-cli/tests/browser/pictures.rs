//! The pictures of the documents: `cargo test -p dlock-cli --test browser -- --ignored pictures` writes them again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use dlock_testkit::Page;
use tokio::time::{Instant, sleep};

use super::site::{Site, UNLOCKS};
use super::{fleet, state};

/// The length of the time line that is drawn.
const LENGTH: Duration = Duration::from_secs(62);

/// Writes what a page shows.
async fn write(page: &Page, name: &str) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/book/src/images")
        .join(name);
    // A row that has the focus or the mouse looks different.
    page.eval("document.activeElement.blur()").await;
    fs::write(&place, page.picture().await)
        .unwrap_or_else(|error| panic!("{}: {error}", place.display()));
}

#[tokio::test]
#[ignore = "it writes the pictures of the documents, and takes a minute"]
async fn pictures_of_the_documents() {
    let site = Site::start(UNLOCKS).await;
    let mut fleet = fleet::start(&site).await;
    let lock = site
        .open(&format!("lock?key={}&span=60", fleet::STOCK))
        .await;
    let list = site.open("locks?sort=wait&order=desc").await;
    list.size(1280, 620).await;
    let begin = Instant::now();
    while begin.elapsed() < LENGTH {
        fleet.turn().await;
        sleep(fleet::TURN / 2).await;
        fleet.renew().await;
        sleep(fleet::TURN / 2).await;
    }
    lock.size(1280, 760).await;
    lock.until("document.querySelectorAll('svg .hold').length > 10")
        .await;
    write(&lock, "dlock-serve-lock.png").await;
    state(&list, "live").await;
    write(&list, "dlock-serve.png").await;
    list.prefer("prefers-color-scheme", "dark").await;
    write(&list, "dlock-serve-dark.png").await;
    list.size(380, 700).await;
    write(&list, "dlock-serve-small.png").await;
}
