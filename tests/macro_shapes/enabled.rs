//! `enabled = EXPR`: with the lock, and without it, in the shapes that functions have.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use dlock::{KeyPart, LockError, LockManager, PartWriter, distributed_lock};
use tokio::{
    sync::oneshot::{Sender, channel},
    task::yield_now,
};

use crate::{
    Fault, Noisy, Result, assert_send, poll_once,
    record::{self, record},
    say, under, while_held,
};

/// A value that says when a key is made of it.
struct Rendered;

impl KeyPart for Rendered {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        say("key");
        out.push_str("x");
    }
}

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    has_replicas: bool,
}

impl Shop {
    #[distributed_lock(key = "order:<id>", enabled = self.has_replicas, manager = self.locks)]
    async fn settle(&self, id: u64) -> Result<u64> {
        say("body");
        yield_now().await;
        Ok(id)
    }

    fn asked(&self) -> &LockManager {
        say("manager");
        &self.locks
    }

    #[distributed_lock(
        key = "order:<part>",
        enabled = { say("enabled"); self.has_replicas },
        wait = { say("wait"); dlock::Wait::Never },
        on_busy = { say("busy"); Ok(false) },
        manager = self.asked()
    )]
    async fn evaluate(&self, part: Rendered) -> Result<bool> {
        say("body");
        Ok(true)
    }
}

#[distributed_lock(key = "job", enabled = enabled, on_busy = skip, on_error = |error| say(error.code()))]
async fn nothing(enabled: bool) {
    say("body");
}

#[distributed_lock(key = ["a:<a>", "b:<b>"], enabled = a != b)]
async fn several(a: u8, b: u8) -> Result<u8> {
    say("body");
    Ok(a + b)
}

fn parsed(flag: &str) -> Result<bool> {
    flag.parse().map_err(|_| Fault::Refused)
}

#[distributed_lock(key = "job", enabled = parsed(flag)?, ttl = "9s", on_lost = finish)]
async fn question(flag: &str) -> Result<bool> {
    say("body");
    Ok(flag.is_empty())
}

#[distributed_lock(key = "job", enabled = cfg!(not(test)), ttl = "9s", renew = false)]
async fn constant<T: Send>(value: T) -> Result<T> {
    say("body");
    Ok(value)
}

#[distributed_lock(key = "job", enabled = enabled)]
fn boxed(enabled: bool) -> futures_util::future::BoxFuture<'static, Result<u8>> {
    Box::pin(async move {
        say("body");
        yield_now().await;
        Ok(1)
    })
}

#[distributed_lock(key = "job", enabled = enabled)]
async fn opaque(enabled: bool) -> Result<impl Iterator<Item = u8>> {
    say("body");
    Ok(std::iter::once(1))
}

#[distributed_lock(key = "job", enabled = enabled)]
async fn early(enabled: bool) -> Result<u8> {
    let value = "7".parse::<u8>()?;
    if value == 7 {
        say("body");
        return Err(Fault::Refused);
    }
    Ok(value)
}

#[distributed_lock(key = "job", enabled = enabled, on_cancel = detach)]
async fn detached(enabled: bool, ends: Sender<()>) -> Result {
    yield_now().await;
    assert!(ends.send(()).is_ok(), "it is waited for");
    Ok(())
}

#[distributed_lock(key = "job", enabled = enabled)]
async fn dropped(enabled: bool, noisy: Noisy, _other: Noisy) -> Result {
    yield_now().await;
    say(noisy.name());
    Ok(())
}

#[tokio::test]
async fn with_the_lock() {
    let shop = |locks| Shop {
        locks,
        has_replicas: true,
    };
    let settled = under("order:7", async {
        assert_send(shop(crate::manager()).settle(7)).await
    });
    assert_eq!(settled.await, Ok(7));
    under("job", nothing(true)).await;
    assert_eq!(under("job", question("true")).await, Ok(false));
    assert_eq!(under("job", boxed(true)).await, Ok(1));
    assert_eq!(under("job", opaque(true)).await.unwrap().count(), 1);
    assert_eq!(under("job", early(true)).await, Err(Fault::Refused));
    let (output, events) = record(several(1, 2)).await;
    assert_eq!(output, Ok(3));
    assert_eq!(events.len(), 5, "{events:?}");
    let (output, events) = record(async {
        let locks = crate::manager();
        while_held("order:x", shop(locks).evaluate(Rendered)).await
    })
    .await;
    assert_eq!(output, Ok(false));
    let before = ["acquire order:x", "enabled", "manager", "wait", "key"];
    assert_eq!(events[..5], before, "{events:?}");
    assert!(!events.contains(&"body".to_owned()), "{events:?}");
}

/// There is no manager, and nobody asks for one.
#[tokio::test]
async fn without_the_lock() {
    let locks = LockManager::memory();
    let guard = locks.lock("order:7").acquire().await.unwrap();
    let shop = Shop {
        locks,
        has_replicas: false,
    };
    let ((), events) = record(async {
        assert_eq!(assert_send(shop.settle(7)).await, Ok(7));
        assert_eq!(shop.evaluate(Rendered).await, Ok(true));
    })
    .await;
    assert_eq!(events, ["body", "enabled", "body"]);
    guard.release().await.unwrap();

    let ((), events) = record(async {
        let nobody = LockManager::memory();
        nobody.shutdown(std::time::Duration::ZERO).await;
        // A manager that has shut down refuses what it is asked for.
        dlock::with_manager(nobody, async {
            nothing(false).await;
            assert_eq!(several(2, 2).await, Ok(4));
            assert_eq!(question("false").await, Ok(false));
            assert_eq!(question("perhaps").await, Err(Fault::Refused));
            assert_eq!(constant(5).await, Ok(5));
            assert_eq!(boxed(false).await, Ok(1));
            assert_eq!(opaque(false).await.unwrap().count(), 1);
            assert_eq!(early(false).await, Err(Fault::Refused));
        })
        .await;
    })
    .await;
    assert_eq!(events, ["body"; 7]);
}

/// Two of them at the same time, which a lock would not let.
#[tokio::test]
async fn calls_without_a_lock_do_not_wait_for_each_other() {
    #[distributed_lock(key = "job", enabled = false)]
    async fn meet(inside: Arc<tokio::sync::Barrier>) -> Result {
        inside.wait().await;
        Ok(())
    }

    let inside = Arc::new(tokio::sync::Barrier::new(2));
    let (both, events) = record(async { tokio::join!(meet(inside.clone()), meet(inside)) }).await;
    assert_eq!(both, (Ok(()), Ok(())));
    assert_eq!(events, [""; 0]);
}

#[tokio::test]
async fn a_body_without_a_lock_detaches_too() {
    for enabled in [true, false] {
        let ((), events) = record(async {
            let (ends, ended) = channel();
            let calling = dlock::with_manager(crate::manager(), detached(enabled, ends));
            let mut calling = Box::pin(calling);
            // Up to the await in its body.
            let begun = poll_fn(|context| Poll::Ready(calling.as_mut().poll(context)));
            assert!(begun.await.is_pending());
            say("caller gone");
            drop(calling);
            assert!(ended.await.is_ok(), "the body goes on to its end");
        })
        .await;
        let events: Vec<_> = events.iter().map(String::as_str).collect();
        let expected: &[_] = if enabled {
            &["acquire job", "caller gone"]
        } else {
            &["caller gone"]
        };
        assert!(events.starts_with(expected), "{events:?}");
    }
}

#[tokio::test]
async fn a_dropped_call_drops_its_arguments() {
    let ((), events) = record(async {
        poll_once(dropped(false, Noisy::new("one"), Noisy::new("two")));
        dropped(false, Noisy::new("three"), Noisy::new("four"))
            .await
            .unwrap();
    })
    .await;
    let dropped = ["drop one", "drop two", "drop three", "drop four"];
    for name in dropped {
        assert!(events.contains(&name.to_owned()), "{events:?}");
    }
    assert!(events.contains(&"three".to_owned()), "{events:?}");
}

/// It is asked once in each call, and its answer may change from call to call.
#[tokio::test]
async fn each_call_asks_anew() {
    static ON: AtomicBool = AtomicBool::new(false);
    #[distributed_lock(key = "job", enabled = ON.load(Ordering::Relaxed))]
    async fn switched() -> std::result::Result<(), LockError> {
        say("body");
        Ok(())
    }
    thread_local! { static ASKED: Cell<u32> = const { Cell::new(0) }; }
    fn asked() -> bool {
        ASKED.set(ASKED.get() + 1);
        true
    }
    #[distributed_lock(key = "job", enabled = asked())]
    async fn counted() -> Result {
        say("body");
        Ok(())
    }
    let ((), events) = record(async {
        switched().await.unwrap();
        ON.store(true, Ordering::Relaxed);
        switched().await.unwrap();
        drop(counted());
        assert_eq!(ASKED.get(), 0, "nothing happens before the first poll");
        counted().await.unwrap();
        assert_eq!(ASKED.get(), 1);
    })
    .await;
    let taken = events.iter().filter(|event| *event == "acquire job");
    assert_eq!(taken.count(), 2, "{events:?}");
    assert_eq!(events[0], "body");
}

#[distributed_lock(key = "job", ttl = "1s", enabled = enabled)]
async fn endless(enabled: bool) -> Result {
    say("body");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    say("end");
    Ok(())
}

/// A lease ends its body as it does without the option; a body without one has nothing to lose.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_body() {
    for enabled in [true, false] {
        let (output, events) = record(async {
            let losing = async {
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                record::store().forget();
            };
            tokio::join!(endless(enabled), losing).0
        })
        .await;
        let lost = matches!(output, Err(Fault::Lock(LockError::Lost { .. })));
        assert_eq!(lost, enabled, "{output:?}");
        assert_eq!(events.contains(&"end".to_owned()), !enabled, "{events:?}");
    }
}
