//! Methods of traits: `#[async_trait]`, and those whose futures are declared.
//!
//! On the method of an `#[async_trait] impl` the attribute always sees the rewritten method.

use async_trait::async_trait;
use dlock::distributed_lock;
use tracing::instrument;

use crate::{Fault, Result, assert_send, record, say, spans::Spans, under};

/// E3: arguments and `self` can be named, and arguments that are patterns go unnamed.
mod e3 {
    use super::*;

    struct Shop {
        name: String,
    }

    #[async_trait]
    trait Till {
        async fn take(&self, id: u64, pair: (u8, u8), sum: u8) -> Result<u8>;
        async fn exchange(&mut self, name: &str, to: &str) -> Result<String>;
        async fn close(self: Box<Self>, order: &Order<'_>) -> Result<String>;
    }

    struct Order<'a> {
        id: &'a str,
    }

    #[async_trait]
    impl Till for Shop {
        #[distributed_lock(key = "till:<self.name>:<id>:<sum>")]
        async fn take(&self, id: u64, (a, b): (u8, u8), mut sum: u8) -> Result<u8> {
            say("body");
            if id == 0 {
                return Err(Fault::Refused);
            }
            sum += a + b;
            Ok(sum)
        }

        #[distributed_lock(key = "till:<self.name>:<name>")]
        async fn exchange(&mut self, name: &str, to: &str) -> Result<String> {
            say("body");
            self.name.push_str(name);
            Ok(std::mem::replace(&mut self.name, to.to_owned()))
        }

        #[distributed_lock(key = "till:<self.name>:<order.id>")]
        async fn close(self: Box<Self>, order: &Order<'_>) -> Result<String> {
            say("body");
            Ok(self.name + order.id)
        }
    }

    #[tokio::test]
    async fn run() {
        let mut shop = Box::new(Shop {
            name: "süd".to_owned(),
        });
        let take = assert_send(shop.take(2, (3, 4), 5));
        assert_eq!(under("till:süd:2:5", take).await, Ok(12));
        let take = shop.take(0, (3, 4), 5);
        assert_eq!(under("till:süd:0:5", take).await, Err(Fault::Refused));
        let exchange = shop.exchange("!", "nord");
        assert_eq!(under("till:süd:%21", exchange).await, Ok("süd!".to_owned()));
        let close = shop.close(&Order { id: "7" });
        assert_eq!(under("till:nord:7", close).await, Ok("nord7".to_owned()));
    }
}

/// E6: `#[async_trait]` with all it can do.
mod e6 {
    use super::*;
    use std::{rc::Rc, sync::Arc};

    #[async_trait]
    trait Till<T: Send + Sync + 'static>: Send + Sync {
        fn value(&self) -> T;

        #[distributed_lock(key = "default:<id>")]
        async fn default_body(&self, id: u8) -> Result<T> {
            say("body");
            tokio::task::yield_now().await;
            let _ = id;
            Ok(self.value())
        }

        async fn of_type(id: u64) -> Result<u64>
        where
            Self: Sized;

        async fn generic<'a, U>(&self, other: &'a U) -> Result<&'a U>
        where
            Self: Sized,
            U: dlock::KeyPart + Sync;
    }

    struct Shop(u8);

    #[async_trait]
    impl Till<u8> for Shop {
        fn value(&self) -> u8 {
            self.0
        }

        #[distributed_lock(key = "static:<id>")]
        async fn of_type(id: u64) -> Result<u64> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "generic:<self.0>:<other>")]
        async fn generic<'a, U>(&self, other: &'a U) -> Result<&'a U>
        where
            U: dlock::KeyPart + Sync,
        {
            say("body");
            Ok(other)
        }
    }

    #[async_trait(?Send)]
    trait Local {
        async fn local(&self, count: Rc<u8>) -> Result<u8>;
    }

    #[async_trait(?Send)]
    impl Local for Shop {
        #[distributed_lock(key = "local:<count>")]
        async fn local(&self, count: Rc<u8>) -> Result<u8> {
            say("body");
            tokio::task::yield_now().await;
            Ok(*count)
        }
    }

    #[tokio::test]
    async fn run() {
        let shop: Arc<dyn TillOfBytes> = Arc::new(Shop(3));
        let body = assert_send(shop.default_body(1));
        assert_eq!(under("default:1", body).await, Ok(3));
        assert_eq!(under("static:9", Shop::of_type(9)).await, Ok(9));
        assert_eq!(under("generic:3:4", Shop(3).generic(&4)).await, Ok(&4));
        let local: Box<dyn Local> = Box::new(Shop(3));
        assert_eq!(under("local:5", local.local(Rc::new(5))).await, Ok(5));
    }

    /// `Till` without the methods that need a sized type.
    trait TillOfBytes: Till<u8> {}
    impl TillOfBytes for Shop {}
}

/// E7: `#[async_trait]`, a span and the lock on one method.
mod e7 {
    use super::*;

    #[async_trait]
    trait Till {
        async fn below(&self, id: u8) -> Result<u8>;
        async fn above(&self, id: u8) -> Result<u8>;
    }

    struct Shop;

    #[async_trait]
    impl Till for Shop {
        #[instrument(skip(self))]
        #[distributed_lock(key = "pay:<id>")]
        async fn below(&self, id: u8) -> Result<u8> {
            say("body");
            Ok(id)
        }

        #[distributed_lock(key = "pay:<id>")]
        #[instrument(skip(self))]
        async fn above(&self, id: u8) -> Result<u8> {
            say("body");
            Ok(id)
        }
    }

    #[tokio::test]
    async fn below_a_span() {
        let (output, events) = record(async {
            let _spans = Spans::tell();
            Shop.below(1).await
        })
        .await;
        assert_eq!(output, Ok(1));
        let expected = [
            "acquire pay:1",
            "enter below",
            "body",
            "leave below",
            "release pay:1",
        ];
        assert_eq!(events, expected);
    }

    #[tokio::test]
    async fn above_a_span() {
        let (output, events) = record(async {
            let _spans = Spans::tell();
            Shop.above(1).await
        })
        .await;
        assert_eq!(output, Ok(1));
        let expected = [
            "enter above",
            "acquire pay:1",
            "body",
            "release pay:1",
            "leave above",
        ];
        assert_eq!(events, expected);
    }
}

/// E10: traits that `trait_variant` makes `Send`.
mod e10 {
    use super::*;

    #[trait_variant::make(Till: Send)]
    trait LocalTill {
        async fn take(&self, id: u8) -> Result<u8>;
    }

    struct Shop;

    impl Till for Shop {
        #[distributed_lock(key = "variant:<id>")]
        async fn take(&self, id: u8) -> Result<u8> {
            say("body");
            Ok(id)
        }
    }

    async fn call(till: &impl LocalTill) -> Result<u8> {
        till.take(4).await
    }

    #[tokio::test]
    async fn run() {
        let take = assert_send(Till::take(&Shop, 3));
        assert_eq!(under("variant:3", take).await, Ok(3));
        assert_eq!(under("variant:4", call(&Shop)).await, Ok(4));
    }
}

/// E11: an `async fn` for a method that is declared to return `impl Future + Send`.
mod e11 {
    use super::*;

    trait Till {
        fn take(&self, amount: u8) -> impl Future<Output = Result<u8>> + Send;
        fn refund(&self, amount: u8) -> impl Future<Output = Result<u8>> + Send;
    }

    struct Shop;

    impl Till for Shop {
        #[distributed_lock(key = "till:<amount>")]
        async fn take(&self, amount: u8) -> Result<u8> {
            say("body");
            tokio::task::yield_now().await;
            Ok(amount)
        }

        #[expect(clippy::manual_async_fn, reason = "it is the case")]
        #[distributed_lock(key = "refund:<amount>")]
        fn refund(&self, amount: u8) -> impl Future<Output = Result<u8>> + Send {
            async move {
                say("body");
                Ok(amount)
            }
        }
    }

    async fn both<T: Till>(till: T) -> Result<u8> {
        Ok(till.take(1).await? + till.refund(2).await?)
    }

    #[tokio::test]
    async fn run() {
        let (output, events) = record(assert_send(both(Shop))).await;
        assert_eq!(output, Ok(3));
        let expected = [
            "acquire till:1",
            "body",
            "release till:1",
            "acquire refund:2",
            "body",
            "release refund:2",
        ];
        assert_eq!(events, expected);
    }
}
