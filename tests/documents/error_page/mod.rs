//! `docs/book/src/reference/errors.md` against the errors themselves: each is provoked, and is on the page as it is shown,
//! with what to do about it; nothing else is.
#![cfg(all(feature = "redis", feature = "tls"))]

mod connect_errors;
mod key_faults;
mod lock_errors;
mod lost_causes;
mod page;
mod store_errors;

use std::time::Duration;

use dlock::{ConnectError, InvalidKeyReason, LockError, LostCause, StoreErrorKind};
use dlock_testkit::{Proxy, RedisServer};

use page::Page;

/// What every error of a lock is about.
const KEY: &str = "order:42";

/// What only a fork brings about: `tests/forks` compares it, which may fork.
const OF_FORKS: [&str; 2] = ["forked", "other-process"];

/// How long an answer is waited for: longer than one takes, shorter than a test may.
const PATIENCE: Duration = Duration::from_millis(300);

#[test]
fn the_page_has_a_row_for_each_error_and_no_other() {
    let page = Page::read();
    let expected = [
        ("LockError", LockError::CODES),
        ("LostCause", LostCause::CODES),
        ("StoreErrorKind", StoreErrorKind::CODES),
        ("InvalidKeyReason", InvalidKeyReason::CODES),
        ("ConnectError", ConnectError::CODES),
        ("AlreadyInstalled", &["already-installed"]),
    ];
    assert_eq!(page.sections(), expected.map(|(section, _)| section));
    for (section, codes) in expected {
        assert_eq!(page.codes_of(section), codes, "{section}");
    }
    let mut all: Vec<_> = expected.iter().flat_map(|(_, codes)| *codes).collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "an anchor leads to one row");
    for row in page.rows() {
        assert!(row.happened.len() > 20, "{}: {}", row.code, row.happened);
        assert!(row.remedy.len() > 10, "{}: {}", row.code, row.remedy);
        let is_answered = row.section == "LockError";
        assert_eq!(row.status.is_some(), is_answered, "{}", row.code);
    }
}

/// A port on which nobody listens as long as the proxy lives.
fn refused() -> (Proxy, String) {
    let proxy = Proxy::start(1);
    proxy.refuse();
    let url = proxy.url();
    (proxy, url)
}

/// Has `server` carry out a command.
async fn run(server: &RedisServer, words: &[&str]) {
    let mut command = redis::Cmd::new();
    command.arg(words);
    let mut connection = server.connection().await;
    command.exec_async(&mut connection).await.unwrap();
}
