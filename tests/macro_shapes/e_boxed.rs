//! Plain functions that end in a boxed or bare `async` block, by hand and by `#[async_trait]`.
//!
//! On the method of an `#[async_trait] impl` the attribute always sees the rewritten method.

use std::pin::Pin;

use async_trait::async_trait;
use dlock::distributed_lock;
use tracing::instrument;

use crate::{Fault, Noisy, Result, assert_send, record, say, spans::Spans, under};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// E1: the form is recognised however `Box::pin` is written.
mod e1 {
    use super::*;
    use std::boxed;

    #[distributed_lock(key = "short:<id>")]
    fn short(id: u8) -> Pin<Box<dyn Future<Output = Result<u8>> + Send>> {
        Box::pin(async move {
            say("body");
            Ok(id)
        })
    }

    #[distributed_lock(key = "long:<id>")]
    fn long(id: u8) -> Pin<Box<dyn Future<Output = Result<u8>> + Send>> {
        ::std::boxed::Box::pin(async move {
            say("body");
            Ok(id)
        })
    }

    #[distributed_lock(key = "half:<id>")]
    #[expect(unused_qualifications, reason = "the path is the case")]
    fn half(id: u8) -> Pin<Box<dyn Future<Output = Result<u8>> + Send>> {
        boxed::Box::<_>::pin(async move {
            say("body");
            Ok(id)
        })
    }

    #[distributed_lock(key = "attribute:<id>")]
    fn with_attribute(id: u8) -> Boxed<'static, Result<u8>> {
        Box::pin(
            #[expect(unused_variables, reason = "the attribute is the case")]
            async move {
                let unused = 1;
                say("body");
                Ok(id)
            },
        )
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("short:1", short(1)).await, Ok(1));
        assert_eq!(under("long:1", long(1)).await, Ok(1));
        assert_eq!(under("half:1", half(1)).await, Ok(1));
        assert_eq!(under("attribute:1", with_attribute(1)).await, Ok(1));
    }
}

/// E2: what stands before the block runs when the function is called, without the lock.
mod e2 {
    use super::*;

    #[distributed_lock(key = "head:<id>")]
    fn head(id: u8, argument: Noisy) -> Boxed<'static, Result<u8>> {
        say("call");
        let more = id + 1;
        drop(argument);
        Box::pin(async move {
            say("body");
            Ok(more)
        })
    }

    #[tokio::test]
    async fn run() {
        let (output, events) = record(async {
            let future = head(1, Noisy::new("argument"));
            say("made");
            future.await
        })
        .await;
        assert_eq!(output, Ok(2));
        let expected = [
            "call",
            "drop argument",
            "made",
            "acquire head:1",
            "body",
            "release head:1",
        ];
        assert_eq!(events, expected);
    }
}

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

/// E4: the output is read from the type of the future, whatever it is.
mod e4 {
    use super::*;

    type Alias = Result<Box<dyn Fn() -> u8 + Send>>;

    #[distributed_lock(key = "alias")]
    fn alias() -> Pin<Box<dyn Future<Output = Alias> + Send>> {
        Box::pin(async move {
            say("body");
            Ok(Box::new(|| 3))
        })
    }

    #[distributed_lock(key = "handled", on_error = |error| error.to_string())]
    fn handled() -> Pin<Box<dyn Future<Output = String> + Send>> {
        Box::pin(async move {
            say("body");
            "ran".to_owned()
        })
    }

    #[distributed_lock(key = "order", on_error = drop)]
    #[expect(unused_qualifications, reason = "the path is the case")]
    fn no_value() -> core::pin::Pin<Box<dyn Send + ::core::future::Future<Output = ()> + 'static>> {
        Box::pin(async move { say("body") })
    }

    #[async_trait]
    trait Till {
        #[distributed_lock(key = "unit", on_error = drop)]
        async fn unit(&self) {
            say("body");
        }

        #[distributed_lock(key = "number", on_error = |_| 0)]
        async fn number(&self) -> u8 {
            say("body");
            1
        }
    }

    impl Till for () {}

    #[tokio::test]
    async fn run() {
        assert_eq!(under("alias", alias()).await.unwrap()(), 3);
        assert_eq!(under("handled", handled()).await, "ran");
        under("order", no_value()).await;
        under("unit", ().unit()).await;
        assert_eq!(under("number", ().number()).await, 1);
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

/// E8: a bare `async move` block at the end.
mod e8 {
    use super::*;

    #[distributed_lock(key = "tail:<id>")]
    fn tail(id: u64) -> impl Future<Output = Result<u64>> + Send {
        let next = id + 1;
        async move {
            let one: u64 = "1".parse()?;
            say("body");
            Ok(next + one)
        }
    }

    #[expect(clippy::manual_async_fn, reason = "it is the case")]
    #[distributed_lock(key = "borrowed:<text>")]
    fn borrowed<'a>(text: &'a str, more: &'a str) -> impl Future<Output = Result<&'a str>> {
        async move {
            say("body");
            Ok(if text.is_empty() { text } else { more })
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("tail:1", assert_send(tail(1))).await, Ok(3));
        assert_eq!(under("borrowed:a", borrowed("a", "b")).await, Ok("b"));
    }
}

/// E9: an alias hides the output, which is then left to inference.
mod e9 {
    use super::*;

    type Hidden<'a> = Boxed<'a, Result<u64>>;

    #[distributed_lock(key = "alias:<id>")]
    fn hidden(id: &u64) -> Hidden<'_> {
        Box::pin(async move {
            say("body");
            if *id == 0 {
                return Err(Fault::Refused);
            }
            let parsed: u64 = "1".parse()?;
            Ok(*id + parsed)
        })
    }

    #[distributed_lock(key = "generic:<id>", on_error = |_| 0)]
    fn generic(id: u64) -> Boxed<'static, u64> {
        Box::pin(async move {
            say("body");
            id
        })
    }

    #[distributed_lock(key = "crate:<id>")]
    fn of_a_crate(id: u64) -> futures_util::future::LocalBoxFuture<'static, Result<u64>> {
        Box::pin(async move {
            say("body");
            Ok(id)
        })
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("alias:0", hidden(&0)).await, Err(Fault::Refused));
        assert_eq!(under("alias:4", hidden(&4)).await, Ok(5));
        assert_eq!(under("generic:4", generic(4)).await, 4);
        assert_eq!(under("crate:4", of_a_crate(4)).await, Ok(4));
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
