//! Lints: the attribute adds none, of no group, and takes none away that is about the user's code.
//!
//! The functions of the other files are looked at by what `main.rs` denies. Here are the lints under
//! which no test could be written.

use std::pin::Pin;

use dlock::distributed_lock;
use tokio::task::yield_now;

use crate::{Fault, Result, record, say, under};

/// All that clippy has to say, with the attribute.
mod locked {
    #![deny(
        clippy::pedantic,
        clippy::nursery,
        clippy::restriction,
        single_use_lifetimes,
        unused_lifetimes,
        unused_results,
        tail_expr_drop_order
    )]
    #![expect(
        clippy::blanket_clippy_restriction_lints,
        clippy::arbitrary_source_item_ordering,
        clippy::implicit_return,
        clippy::question_mark_used,
        clippy::shadow_reuse,
        clippy::single_call_fn,
        clippy::unwrap_used,
        reason = "what is said of these functions without the attribute"
    )]
    use super::*;

    #[distributed_lock(key = "pay:<id>", ttl = "9s", wait = never, on_busy = Ok(0))]
    pub(in crate::j_lints) async fn pay(id: u64, _note: &str) -> Result<u64> {
        say("body");
        yield_now().await;
        Ok(id)
    }

    #[distributed_lock(key = "write:<id>", enabled = id > 0, on_busy = skip, metric = "write")]
    pub(in crate::j_lints) async fn writes(id: u64) -> Result<Option<u64>> {
        say("body");
        yield_now().await;
        Ok(Some(id))
    }

    #[distributed_lock(key = "check:<id>", lease = lease)]
    pub(in crate::j_lints) async fn checks(id: u64) -> Result<u64> {
        say("body");
        yield_now().await;
        lease.ensure_held()?;
        Ok(id)
    }

    pub(in crate::j_lints) struct Shop {
        name: String,
    }

    impl Shop {
        pub(in crate::j_lints) const fn new(name: String) -> Self {
            Self { name }
        }

        #[distributed_lock(key = "shop:<self.name>")]
        pub(in crate::j_lints) async fn rename(&mut self, name: &str) -> Result<&str> {
            say("body");
            yield_now().await;
            if name.is_empty() {
                return Err(Fault::Refused);
            }
            self.name.push_str(name);
            Ok(&self.name)
        }

        #[distributed_lock(key = "close", on_error = drop)]
        pub(in crate::j_lints) async fn close(self) {
            say("body");
            yield_now().await;
            drop(self.name);
        }
    }

    #[distributed_lock(key = "boxed:<id>")]
    pub(in crate::j_lints) fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64>> + Send>> {
        Box::pin(async move {
            say("body");
            yield_now().await;
            Ok(id)
        })
    }

    #[distributed_lock(key = "unwraps:<id>", on_error = |error| Err(error.into()))]
    pub(in crate::j_lints) async fn unwraps(id: &str) -> Result<u64> {
        say("body");
        yield_now().await;
        let _: u64 = id.len().try_into().unwrap();
        let id = id.parse()?;
        Ok(id)
    }
}

/// The same functions without the attribute, of which the same is said.
mod plain {
    #![deny(
        clippy::pedantic,
        clippy::nursery,
        clippy::restriction,
        single_use_lifetimes,
        unused_lifetimes,
        unused_results,
        tail_expr_drop_order
    )]
    #![expect(
        clippy::blanket_clippy_restriction_lints,
        clippy::arbitrary_source_item_ordering,
        clippy::implicit_return,
        clippy::question_mark_used,
        clippy::shadow_reuse,
        clippy::single_call_fn,
        clippy::unwrap_used,
        reason = "what is said of these functions without the attribute"
    )]
    use super::*;

    pub(in crate::j_lints) async fn pay(id: u64, _note: &str) -> Result<u64> {
        say("body");
        yield_now().await;
        Ok(id)
    }

    pub(in crate::j_lints) struct Shop {
        name: String,
    }

    impl Shop {
        pub(in crate::j_lints) const fn new(name: String) -> Self {
            Self { name }
        }

        pub(in crate::j_lints) async fn rename(&mut self, name: &str) -> Result<&str> {
            say("body");
            yield_now().await;
            if name.is_empty() {
                return Err(Fault::Refused);
            }
            self.name.push_str(name);
            Ok(&self.name)
        }

        pub(in crate::j_lints) async fn close(self) {
            say("body");
            yield_now().await;
            drop(self.name);
        }
    }

    pub(in crate::j_lints) fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64>> + Send>> {
        Box::pin(async move {
            say("body");
            yield_now().await;
            Ok(id)
        })
    }

    pub(in crate::j_lints) async fn unwraps(id: &str) -> Result<u64> {
        say("body");
        yield_now().await;
        let _: u64 = id.len().try_into().unwrap();
        let id = id.parse()?;
        Ok(id)
    }
}

#[tokio::test]
async fn j0() {
    assert_eq!(under("pay:1", locked::pay(1, "")).await, Ok(1));
    let mut shop = locked::Shop::new("nord".to_owned());
    assert_eq!(under("shop:nord", shop.rename("!")).await, Ok("nord!"));
    under("close", shop.close()).await;
    assert_eq!(under("check:1", locked::checks(1)).await, Ok(1));
    assert_eq!(under("write:1", locked::writes(1)).await, Ok(Some(1)));
    assert_eq!(under("boxed:1", locked::boxed(1)).await, Ok(1));
    assert_eq!(under("unwraps:1", locked::unwraps("1")).await, Ok(1));
    let plain = async {
        let mut shop = plain::Shop::new("nord".to_owned());
        let renamed = shop.rename("").await.map(str::to_owned);
        shop.close().await;
        (
            plain::pay(1, "").await,
            renamed,
            plain::boxed(1).await,
            plain::unwraps("1").await,
        )
    };
    let (output, events) = record(plain).await;
    assert_eq!(output, (Ok(1), Err(Fault::Refused), Ok(1), Ok(1)));
    assert_eq!(events, ["body"; 5]);
}

/// Lints that other macros of this kind have set off.
mod j1 {
    use super::*;
    use std::future::{Ready, ready};

    // The body's block yields what is a future itself.
    #[distributed_lock(key = "future", on_error = |_| ready(0))]
    async fn yields_a_future() -> Ready<u8> {
        say("body");
        ready(1)
    }

    #[distributed_lock(key = "condition")]
    async fn condition() -> Result<bool> {
        if yields_a_future().await.await == 1 {
            Ok(true)
        } else {
            Ok(false)
        }
    }

    #[distributed_lock(key = "unit", on_error = |_| ())]
    async fn unit() {
        if condition().await.is_ok_and(|yes| yes) {
            say("yes");
        }
    }

    // `Self` and lifetimes that are not written, in one type.
    struct Shop<'a>(&'a str);

    impl<'a> Shop<'a> {
        #[distributed_lock(key = "elided")]
        async fn elided(&self, other: Shop<'_>) -> Result<Shop<'a>> {
            say("body");
            Ok(Self(if other.0.is_empty() { "" } else { self.0 }))
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("future", yields_a_future()).await.await, 1);
        let ((), events) = record(unit()).await;
        assert_eq!(events[1], "acquire condition");
        assert!(events.contains(&"yes".to_owned()), "{events:?}");
        let elided = under("elided", Shop("a").elided(Shop("b"))).await;
        assert_eq!(elided.unwrap().0, "a");
    }
}
