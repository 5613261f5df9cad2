//! `lock_sites()`: what the annotated functions of a program say of themselves.
#![cfg(feature = "registry")]

use std::time::Duration;

use dlock::{LockError, LockMode, Wait, assert_lock_sites_agree, distributed_lock, lock_sites};

#[distributed_lock(key = "order:<id>", ttl = "30s", wait = "5s")]
async fn settle(id: u64) -> Result<u64, LockError> {
    #[distributed_lock(key = "nested", wait = forever)]
    async fn nested() -> Result<(), LockError> {
        Ok(())
    }
    nested().await?;
    Ok(id)
}

mod shipping {
    use super::{LockError, distributed_lock};

    pub(super) struct Parcel(pub(super) u64);

    impl Parcel {
        #[distributed_lock(key = "order:<self.0>", ttl = "1m", wait = "5s")]
        pub(super) async fn r#send(&self) -> Result<(), LockError> {
            Ok(())
        }
    }

    pub(super) trait Courier {
        #[distributed_lock(key = "courier", wait = never)]
        async fn leave(&self) -> Result<(), LockError> {
            Ok(())
        }
    }

    impl Courier for Parcel {}
}

const TTL: Duration = Duration::from_secs(9);

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = "import:<source>", ttl = TTL, wait = patience)]
async fn import<S: dlock::KeyPart, const N: usize>(
    source: S,
    patience: Duration,
) -> Result<S, LockError> {
    Ok(source)
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], wait = "5s")]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = "job:<day>", on_busy = skip, metric = "nightly", enabled = day > 0)]
async fn nightly(day: u32) -> Result<(), LockError> {
    Ok(())
}

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = "feed:<name>", ttl = "20s", on_lost = finish)]
fn blocks(name: &str) -> Result<(), LockError> {
    Ok(())
}

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = ["stock:<shelf>", shared("shop:<shop>")], permits = 3)]
async fn pick(shelf: u64, shop: &str) -> Result<(), LockError> {
    Ok(())
}

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = "stock:<shelf>", mode = shared)]
async fn count(shelf: u64) -> Result<(), LockError> {
    Ok(())
}

#[expect(dead_code, reason = "those that nobody calls count as well")]
#[distributed_lock(key = "stock:<shelf>", permits = most)]
async fn fill(shelf: u64, most: u32) -> Result<(), LockError> {
    Ok(())
}

macro_rules! made {
    ($name:ident) => {
        #[distributed_lock(key = "made")]
        async fn $name() -> Result<(), LockError> {
            Ok(())
        }
    };
}
made!(made);

/// The lines of this file that begin an attribute, or a macro that makes one.
fn lines() -> Vec<u32> {
    let source = include_str!("registry.rs").lines().zip(1..);
    source
        .filter(|(line, _)| {
            let line = line.trim();
            line.starts_with("#[distributed_lock(key = ") && !line.contains("made")
                || line == "made!(made);"
        })
        .map(|(_, number)| number)
        .collect()
}

#[test]
fn every_annotated_function_is_listed_once() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let wait = |limit| Some(Wait::For(Duration::from_secs(limit)));
    let found: Vec<_> = lock_sites()
        .into_iter()
        .map(|site| {
            assert!(site.file().ends_with("registry.rs"), "{site}");
            assert_eq!(
                site.to_string(),
                format!("{} ({}:{})", site.function(), site.file(), site.line())
            );
            (site.function(), site.template(), site.ttl(), site.wait())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("registry::settle", "order:<id>", seconds(30), wait(5)),
            ("registry::nested", "nested", None, Some(Wait::Forever)),
            (
                "registry::shipping::send",
                "order:<self.0>",
                seconds(60),
                wait(5)
            ),
            (
                "registry::shipping::leave",
                "courier",
                None,
                Some(Wait::Never)
            ),
            ("registry::import", "import:<source>", seconds(9), None),
            (
                "registry::transfer",
                "account:<from>, account:<to>",
                None,
                wait(5)
            ),
            ("registry::nightly", "job:<day>", None, Some(Wait::Never)),
            ("registry::blocks", "feed:<name>", seconds(20), None),
            ("registry::pick", "stock:<shelf>, shop:<shop>", None, None),
            ("registry::count", "stock:<shelf>", None, None),
            ("registry::fill", "stock:<shelf>", None, None),
            ("registry::made", "made", None, None),
        ]
    );
    let found: Vec<_> = lock_sites().iter().map(|site| site.line()).collect();
    assert_eq!(found, lines());
    let import = lock_sites()
        .into_iter()
        .find(|site| site.template() == "import:<source>");
    let import = import.expect("it is listed");
    assert_eq!(import.computed(), ["wait"]);
    assert_eq!(import.templates(), ["import:<source>"]);
    let transfer = lock_sites()
        .into_iter()
        .find(|site| site.templates().len() > 1);
    assert_eq!(
        transfer.expect("it is listed").templates(),
        ["account:<from>", "account:<to>"]
    );
}

#[test]
fn what_metrics_show_and_what_a_call_decides_is_listed() {
    let sites = lock_sites();
    let site = |function| {
        let mut sites = sites.iter();
        sites.find(|site| site.function() == function)
    };
    let nightly = site("registry::nightly").expect("it is listed");
    assert_eq!(
        (nightly.metric(), nightly.computed()),
        ("nightly", &["enabled"][..])
    );
    let transfer = site("registry::transfer").expect("it is listed");
    assert_eq!(transfer.metric(), transfer.template());
}

#[test]
fn the_mode_of_each_key_is_listed() {
    let modes = |function| {
        let mut sites = lock_sites().into_iter();
        let site = sites.find(|site| site.function() == function);
        site.expect("it is listed").modes()
    };
    let (exclusive, shared) = (Some(LockMode::Exclusive), Some(LockMode::Shared));
    assert_eq!(
        modes("registry::pick"),
        [Some(LockMode::Permits(3)), shared]
    );
    assert_eq!(modes("registry::count"), [shared]);
    assert_eq!(modes("registry::fill"), [None], "each call computes it");
    assert_eq!(modes("registry::transfer"), [exclusive, exclusive]);
}

#[test]
fn different_settings_for_one_lock_fail_a_test() {
    let outcome = std::panic::catch_unwind(assert_lock_sites_agree);
    let message = outcome.expect_err("`settle` and `send` do not agree");
    let message = message.downcast_ref::<String>().expect("a text");
    let wanted = [
        "`ttl` differs for the lock `order:<id>`:",
        "30s, in registry::settle (",
        "60s, in registry::shipping::send (",
    ];
    for line in wanted {
        assert!(message.contains(line), "{message}");
    }
    assert_eq!(message.lines().count(), wanted.len(), "{message}");
}

#[tokio::test]
async fn listed_functions_still_lock() {
    use shipping::Courier;
    let manager = dlock::LockManager::memory();
    let parcel = shipping::Parcel(42);
    dlock::with_manager(manager.clone(), async {
        assert_eq!(settle(42).await, Ok(42));
        assert_eq!(parcel.send().await, Ok(()));
        assert_eq!(parcel.leave().await, Ok(()));
        assert_eq!(made().await, Ok(()));
        assert_eq!(transfer(1, 2).await, Ok(3));
    })
    .await;
    let _guard = manager
        .lock("order:42")
        .acquire()
        .await
        .expect("it is free");
    let section = dlock::with_manager(manager, settle(42));
    let outcome = tokio::time::timeout(Duration::from_millis(1), section).await;
    assert!(outcome.is_err(), "it waits for the lock");
}
