//! What makes no key.

use dlock::{
    InvalidKeyReason, KeyPart, LockError, LockKey, LockManager, PartWriter, distributed_lock,
};

use crate::error_page::page::Page;

#[distributed_lock(key = "order:<id>", manager = manager)]
async fn settle(manager: &LockManager, id: &str) -> Result<(), LockError> {
    unreachable!("`{id}` makes no key, and {manager:?} is not asked")
}

struct Muddled;

impl KeyPart for Muddled {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        out.push_str("a");
        out.push_part(&1);
    }
}

async fn provoke(code: &str) -> (LockError, &'static str) {
    let manager = LockManager::memory();
    let made = |key: Result<LockKey, LockError>| key.map(|key| panic!("it made {key}"));
    let lock = |text: &'static str| manager.lock(text).run(async |_| ());
    let (outcome, named) = match code {
        "empty-key" => (lock("").await, "``"),
        "no-keys" => {
            let none: [&str; 0] = [];
            (
                manager.lock_all(none).run(async |_| ()).await,
                "is not a valid lock key",
            )
        }
        "empty-part" => (settle(&manager, "").await, "`order:<id>`"),
        "too-long" => (settle(&manager, &"x".repeat(600)).await, "`order:<id>`"),
        "control-character" => (lock("order:4\n2").await, "`order:4\\n2`"),
        "brace" => (lock("order:{42}").await, "`order:{42}`"),
        "text-and-parts" => {
            let key = LockKey::builder().text("order:").part(&Muddled).build();
            (made(key), "`order:")
        }
        "undelimited" => {
            let key = LockKey::builder().text("order:").part(&4).part(&2).build();
            (made(key), "`order:4")
        }
        other => panic!("nobody knows how to provoke `{other}`"),
    };
    (outcome.expect_err("it makes no key"), named)
}

#[tokio::test]
async fn each_is_on_the_page() {
    let page = Page::read();
    for code in InvalidKeyReason::CODES {
        let (error, named) = provoke(code).await;
        let LockError::InvalidKey { reason, .. } = &error else {
            panic!("`{code}`: {error}");
        };
        assert_eq!(reason.code(), *code, "{error}");
        page.assert_shows(code, &error);
        assert!(error.to_string().contains(named), "{error}");
    }
}
