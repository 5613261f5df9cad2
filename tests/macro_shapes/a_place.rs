//! Where the attribute stands, and how it is named.

use dlock::distributed_lock;
use tracing::instrument;

use crate::{Result, assert_send, record, say, spans::Spans, under};

/// A1: a free function, an inherent method, a trait's method and its default.
mod a1 {
    use super::*;

    #[distributed_lock(key = "order:<id>", ttl = "30s")]
    async fn free(id: u64) -> Result<u64> {
        tokio::task::yield_now().await;
        say("body");
        Ok(id)
    }

    struct Shop;

    impl Shop {
        #[distributed_lock(key = "shop:<id>")]
        async fn inherent(&self, id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }
    }

    trait Till {
        fn take(&self, amount: u8) -> impl Future<Output = Result<u8>> + Send;

        #[distributed_lock(key = "till:both")]
        async fn take_twice(&self) -> Result<u8> {
            say("body");
            Ok(2)
        }
    }

    impl Till for Shop {
        #[distributed_lock(key = "till:<amount>")]
        async fn take(&self, amount: u8) -> Result<u8> {
            say("body");
            Ok(amount)
        }
    }

    fn nested(id: u8) -> impl Future<Output = Result<u8>> + Send {
        #[distributed_lock(key = "nested:<id>")]
        async fn inner(id: u8) -> Result<u8> {
            say("body");
            Ok(id)
        }
        inner(id)
    }

    const _: () = {
        impl Shop {
            #[distributed_lock(key = "block:<id>")]
            async fn in_a_block(&self, id: u8) -> Result<u8> {
                say("body");
                Ok(id)
            }
        }
    };

    #[tokio::test]
    async fn run() {
        assert_eq!(under("order:7", assert_send(free(7))).await, Ok(7));
        assert_eq!(under("nested:7", nested(7)).await, Ok(7));
        assert_eq!(under("block:7", Shop.in_a_block(7)).await, Ok(7));
        assert_eq!(under("shop:7", assert_send(Shop.inherent(7))).await, Ok(7));
        assert_eq!(under("till:3", assert_send(Shop.take(3))).await, Ok(3));
        assert_eq!(under("till:both", Shop.take_twice()).await, Ok(2));
    }
}

/// A5: of two attributes that wrap the body, the lower one wraps the upper. Two of ours are refused.
mod a5 {
    use super::*;

    #[instrument]
    #[distributed_lock(key = "pay")]
    async fn below_instrument() -> Result {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "pay")]
    #[instrument]
    async fn above_instrument() -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn below_a_span_the_lock_is_outside() {
        let spanned = async {
            let _spans = Spans::tell();
            below_instrument().await
        };
        let (_, events) = record(spanned).await;
        let expected = [
            "acquire pay",
            "enter below_instrument",
            "body",
            "leave below_instrument",
            "release pay",
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test]
    async fn above_a_span_the_lock_is_inside() {
        let spanned = async {
            let _spans = Spans::tell();
            above_instrument().await
        };
        let (_, events) = record(spanned).await;
        let expected = [
            "enter above_instrument",
            "acquire pay",
            "body",
            "release pay",
            "leave above_instrument",
        ];
        assert_eq!(events, expected);
    }
}

/// A12: conditional, by its path, by another name.
mod a12 {
    use super::*;
    use dlock as locks;
    use dlock::distributed_lock as locked;

    #[cfg_attr(all(), distributed_lock(key = "on"))]
    async fn conditional() -> Result {
        say("body");
        Ok(())
    }

    #[cfg_attr(any(), distributed_lock(key = "off"))]
    async fn switched_off() -> Result {
        say("body");
        tokio::task::yield_now().await;
        Ok(())
    }

    #[cfg_attr(all(), cfg_attr(all(), inline, distributed_lock(key = "nested")))]
    async fn nested_condition() -> Result {
        say("body");
        Ok(())
    }

    #[dlock::distributed_lock(key = "path")]
    async fn by_path() -> Result {
        say("body");
        Ok(())
    }

    #[::dlock::distributed_lock(key = "absolute")]
    async fn by_absolute_path() -> Result {
        say("body");
        Ok(())
    }

    #[locks::distributed_lock(key = "module")]
    async fn by_other_module() -> Result {
        say("body");
        Ok(())
    }

    #[locked(key = "name")]
    async fn by_other_name() -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("on", conditional()).await, Ok(()));
        assert_eq!(record(switched_off()).await.1, ["body"]);
        assert_eq!(under("nested", nested_condition()).await, Ok(()));
        assert_eq!(under("path", by_path()).await, Ok(()));
        assert_eq!(under("absolute", by_absolute_path()).await, Ok(()));
        assert_eq!(under("module", by_other_module()).await, Ok(()));
        assert_eq!(under("name", by_other_name()).await, Ok(()));
    }
}

/// A13: attributes around it stay, on either side, and so do the warnings they are about.
mod a13 {
    use super::*;

    /// Documented.
    #[inline]
    #[must_use = "the money is gone"]
    #[distributed_lock(key = "around")]
    #[doc(alias = "settle")]
    #[deprecated(note = "use the other one")]
    #[cold]
    async fn around() -> Result {
        say("body");
        Ok(())
    }

    #[expect(deprecated, reason = "it is said to be")]
    #[tokio::test]
    async fn deprecated_is_kept() {
        assert_eq!(under("around", around()).await, Ok(()));
    }

    #[distributed_lock(key = "never-called")]
    #[expect(dead_code, reason = "above the attribute and below it")]
    async fn never_called_above() -> Result {
        Ok(())
    }

    #[expect(dead_code, reason = "above the attribute and below it")]
    #[distributed_lock(key = "never-called")]
    async fn never_called_below() -> Result {
        Ok(())
    }

    #[distributed_lock(key = "unused:<used>")]
    #[expect(unused_variables, reason = "the attribute does not use it")]
    async fn unused_parameter(used: u8, unused: u8) -> Result {
        say("body");
        Ok(())
    }

    #[expect(unused_must_use, reason = "two results are dropped")]
    #[distributed_lock(key = "dropped")]
    async fn dropped_result() -> Result {
        unused_parameter(1, 2).await;
        Ok(())
    }

    #[tokio::test]
    async fn unused_things_are_reported() {
        let (_, events) = record(dropped_result()).await;
        let expected = [
            "acquire dropped",
            "acquire unused:1",
            "body",
            "release unused:1",
            "release dropped",
        ];
        assert_eq!(events, expected);
    }

    #[distributed_lock(key = "allowed")]
    #[allow(clippy::let_and_return, reason = "the attribute is to reach the body")]
    async fn allowed() -> Result {
        say("body");
        let output = Ok(());
        output
    }

    #[tokio::test]
    async fn what_is_allowed_stays_allowed() {
        assert_eq!(under("allowed", allowed()).await, Ok(()));
    }
}

/// A14: inner attributes at the start of the body.
mod a14 {
    use super::*;
    use std::pin::Pin;

    #[distributed_lock(key = "inner")]
    async fn inner() -> Result<u8> {
        #![allow(unused_variables)]
        #![expect(clippy::let_and_return, reason = "it reaches the body")]
        let unused = 1;
        say("body");
        let output = Ok(2);
        output
    }

    #[distributed_lock(key = "boxed")]
    fn boxed() -> Pin<Box<dyn Future<Output = Result<u8>> + Send>> {
        #![allow(unused_variables)]
        let unused = 1;
        Box::pin(async move {
            say("body");
            let unused = 2;
            Ok(2)
        })
    }

    #[async_trait::async_trait]
    trait Till {
        async fn take(&self) -> Result<u8>;
    }

    #[async_trait::async_trait]
    impl Till for () {
        #[distributed_lock(key = "method")]
        async fn take(&self) -> Result<u8> {
            #![allow(unused_variables)]
            let unused = 1;
            say("body");
            Ok(2)
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("inner", inner()).await, Ok(2));
        assert_eq!(under("boxed", boxed()).await, Ok(2));
        assert_eq!(under("method", ().take()).await, Ok(2));
    }
}
