//! Other attributes above and below. Where only one order is here, the other is refused.

use std::pin::Pin;

use dlock::{LockError, LockManager, distributed_lock};
use tracing::instrument;

use crate::{
    Fault, Result, assert_send, manager, record, record_blocking, say, spans::Spans, under,
};

/// A6: attributes that make more functions of one.
mod a6 {
    use super::*;
    use cached::macros::cached;

    #[distributed_lock(key = "price:<id>")]
    #[cached]
    async fn above(id: u64) -> Result<u64> {
        say("body");
        Ok(id)
    }

    // Both the function and the one that it calls on a miss get the attribute.
    #[cached]
    #[distributed_lock(key = "price:<id>")]
    async fn below(id: u64) -> Result<u64> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn above_a_cache_only_a_miss_takes_the_lock() {
        assert_eq!(under("price:1", above(1)).await, Ok(1));
        let (output, events) = record(above(1)).await;
        assert_eq!((output, events), (Ok(1), vec![]));
    }

    #[tokio::test]
    async fn a_copy_inside_the_original_is_a_deadlock_and_refused() {
        let (output, events) = record(below(2)).await;
        let refused = matches!(output, Err(Fault::Lock(LockError::WouldDeadlock { .. })));
        assert!(refused, "{output:?}");
        assert_eq!(events, ["acquire price:2", "release price:2"]);
    }
}

/// A7: attributes that make a plain function of an async one. Below them it is too late, which is
/// refused; `rstest` expands in tests only, so its refusal is not in `tests/ui`.
mod a7 {
    use super::*;
    use rstest::rstest;

    #[distributed_lock(key = "main", manager = manager())]
    #[tokio::main(flavor = "current_thread")]
    async fn tokio_main() -> Result<u8> {
        say("body");
        Ok(1)
    }

    #[distributed_lock(key = "main", manager = manager())]
    #[actix_web::main]
    async fn actix_main() -> Result<u8> {
        say("body");
        Ok(1)
    }

    #[test]
    fn above_main() {
        for main in [tokio_main, actix_main] {
            let (output, events) = record_blocking(main);
            assert_eq!(output, Ok(1));
            assert_eq!(events, ["acquire main", "body", "release main"]);
        }
    }

    #[distributed_lock(key = "test", manager = LockManager::memory(), lease = lease)]
    #[tokio::test]
    async fn above_a_test() -> Result {
        assert_eq!(lease.key().as_str(), "test");
        Ok(())
    }

    #[distributed_lock(key = "test", manager = LockManager::memory(), lease = lease)]
    #[actix_web::test]
    async fn above_a_test_of_actix() -> Result {
        assert_eq!(lease.key().as_str(), "test");
        Ok(())
    }

    #[distributed_lock(key = "case:<id>", manager = LockManager::memory(), lease = lease)]
    #[rstest]
    #[case(1)]
    #[case(2)]
    #[tokio::test]
    async fn above_cases(#[case] id: u8) -> Result {
        assert_eq!(lease.key().as_str(), format!("case:{id}"));
        Ok(())
    }
}

/// A8: builders; handlers have a file of their own.
mod a8_bon {
    use super::*;
    use bon::builder;

    #[builder]
    #[distributed_lock(key = "pay:<id>")]
    async fn below(id: u64, note: Option<&str>) -> Result<(u64, Option<String>)> {
        say("body");
        Ok((id, note.map(ToOwned::to_owned)))
    }

    #[distributed_lock(key = "pay:<id>/<part>")]
    #[builder]
    async fn above(id: u64, #[builder(default = 7)] part: u8) -> Result<(u64, u8)> {
        say("body");
        Ok((id, part))
    }

    #[tokio::test]
    async fn run() {
        let below = below().id(3).note("n").call();
        assert_eq!(under("pay:3", below).await, Ok((3, Some("n".to_owned()))));
        let above = above().id(3).call();
        assert_eq!(under("pay:3/7", above).await, Ok((3, 7)));
    }
}

/// A9: recursion, by boxes that an attribute makes.
mod a9 {
    use super::*;
    use async_recursion::async_recursion;

    #[async_recursion]
    #[distributed_lock(key = "level:<n>")]
    async fn below(n: u8) -> Result<u8> {
        if n == 0 {
            say("body");
            return Ok(0);
        }
        Ok(below(n - 1).await? + 1)
    }

    #[distributed_lock(key = "level:<n>")]
    #[async_recursion]
    async fn above(n: u8) -> Result<u8> {
        if n == 0 {
            say("body");
            return Ok(0);
        }
        Ok(above(n - 1).await? + 1)
    }

    #[async_recursion]
    #[distributed_lock(key = "level")]
    async fn same_key(n: u8) -> Result<u8> {
        say(format!("body {n}"));
        Ok(same_key(n + 1).await? + 1)
    }

    #[tokio::test]
    async fn different_keys_are_nested() {
        let expected = [
            "acquire level:1",
            "acquire level:0",
            "body",
            "release level:0",
            "release level:1",
        ];
        let (output, events) = record(assert_send(below(1))).await;
        assert_eq!(
            (output, events.as_slice()),
            (Ok(1), &expected.map(str::to_owned)[..])
        );
        let (output, events) = record(assert_send(above(1))).await;
        assert_eq!(
            (output, events.as_slice()),
            (Ok(1), &expected.map(str::to_owned)[..])
        );
    }

    #[tokio::test]
    async fn the_same_key_is_a_deadlock_and_refused() {
        let (output, events) = record(same_key(0)).await;
        let refused = matches!(output, Err(Fault::Lock(LockError::WouldDeadlock { .. })));
        assert!(refused, "{output:?}");
        assert_eq!(events, ["acquire level", "body 0", "release level"]);
    }
}

/// A10: the boxed form stays one that other attributes recognise.
mod a10 {
    use super::*;

    type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

    #[instrument]
    #[distributed_lock(key = "pay")]
    fn below() -> Boxed<Result> {
        say("call");
        Box::pin(async move {
            say("body");
            Ok(())
        })
    }

    #[distributed_lock(key = "pay")]
    #[instrument]
    fn above() -> Boxed<Result> {
        say("call");
        Box::pin(async move {
            say("body");
            Ok(())
        })
    }

    async fn told(make: fn() -> Boxed<Result>) -> Vec<String> {
        let spanned = async {
            let _spans = Spans::tell();
            let future = make();
            say("made");
            future.await.unwrap();
        };
        record(spanned).await.1
    }

    #[tokio::test]
    async fn the_span_lasts_as_long_as_the_future_runs() {
        let expected = [
            "call",
            "made",
            "acquire pay",
            "enter below",
            "body",
            "leave below",
            "release pay",
        ];
        assert_eq!(told(below).await, expected);
        let expected = [
            "call",
            "made",
            "enter above",
            "acquire pay",
            "body",
            "release pay",
            "leave above",
        ];
        assert_eq!(told(above).await, expected);
    }
}

/// A13: an attribute below that takes an argument, which the body then does not own.
mod a13 {
    use super::*;
    use crate::Noisy;
    use tracing::{Id, Span};

    #[distributed_lock(key = "pay")]
    #[instrument(follows_from = causes, skip(causes))]
    async fn follows(causes: Vec<Id>) -> Result {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "pay")]
    #[instrument(parent = parent, skip_all)]
    async fn below_a_parent(parent: Span) -> Result {
        say("body");
        Ok(())
    }

    #[instrument(parent = parent, skip_all)]
    #[distributed_lock(key = "pay")]
    async fn above(parent: Span) -> Result {
        say("body");
        Ok(())
    }

    /// What the attribute only reads is dropped under the lock.
    #[distributed_lock(key = "pay")]
    #[instrument(skip_all, fields(name = read.name()))]
    async fn reads(read: Noisy) -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("pay", follows(vec![Id::from_u64(1)])).await, Ok(()));
        assert_eq!(under("pay", below_a_parent(Span::none())).await, Ok(()));
        assert_eq!(under("pay", above(Span::none())).await, Ok(()));
        let (_, events) = record(async { reads(Noisy::new("read")).await }).await;
        assert_eq!(events, ["acquire pay", "body", "drop read", "release pay"]);
    }
}

/// A12: attributes below that put the block into one of their own, with names beside it.
mod a12 {
    use super::*;
    use async_trait::async_trait;

    #[async_trait]
    trait Till {
        async fn fails(&self, id: u64) -> Result<u64>;
        async fn returns(&self, id: u64) -> Result<u64>;
        async fn both(&self, id: u64) -> Result<u64>;
        async fn neither(&self, id: u64) -> Result<u64>;
    }

    #[async_trait]
    impl Till for () {
        #[distributed_lock(key = "pay:<id>")]
        #[instrument(err, skip(self))]
        async fn fails(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "pay:<id>")]
        #[instrument(ret, skip(self))]
        async fn returns(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "pay:<id>")]
        #[instrument(err, ret, skip(self))]
        async fn both(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "pay:<id>", manager = manager())]
        #[instrument(skip(self))]
        async fn neither(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }
    }

    #[distributed_lock(key = "pay:<id>")]
    #[instrument(err, ret)]
    fn block(id: u64) -> impl Future<Output = Result<u64>> {
        async move {
            say("body");
            Ok(id)
        }
    }

    #[distributed_lock(key = "pay:<id>")]
    #[instrument(err)]
    fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64>> + Send>> {
        Box::pin(async move {
            say("body");
            Ok(id)
        })
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("pay:1", ().fails(1)).await, Ok(1));
        assert_eq!(under("pay:2", ().returns(2)).await, Ok(2));
        assert_eq!(under("pay:3", ().both(3)).await, Ok(3));
        assert_eq!(under("pay:4", ().neither(4)).await, Ok(4));
        assert_eq!(under("pay:5", block(5)).await, Ok(5));
        assert_eq!(under("pay:6", boxed(6)).await, Ok(6));
    }
}

/// A11: an attribute on the `impl` that reads those of the methods.
mod a11 {
    use super::*;

    struct Shop {
        name: &'static str,
    }

    #[bon::bon]
    impl Shop {
        #[builder]
        #[distributed_lock(key = "shop:<self.name>/<id>", ttl = "30s", on_lost = finish, wait = never)]
        async fn below(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "shop:<self.name>/<id>", on_error = |_| 0)]
        #[builder]
        async fn above(&self, id: u64) -> u64 {
            say("body");
            id
        }
    }

    #[tokio::test]
    async fn run() {
        let shop = Shop { name: "nord" };
        assert_eq!(under("shop:nord/3", shop.below().id(3).call()).await, Ok(3));
        assert_eq!(under("shop:nord/4", shop.above().id(4).call()).await, 4);
    }
}
