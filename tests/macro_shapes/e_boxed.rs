//! Plain functions that end in a boxed or bare `async` block.

use std::{num::ParseIntError, pin::Pin, time::Duration};

use async_trait::async_trait;
use dlock::distributed_lock;

use crate::{Fault, Noisy, Result, assert_send, record, say, under};

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

    fn seconds(text: &str) -> Result<Duration, ParseIntError> {
        text.parse().map(Duration::from_secs)
    }

    #[async_trait]
    trait Till {
        // What is computed before the body has its coercions and conversions, too.
        #[distributed_lock(
            key = "computed",
            ttl = seconds(ttl)?,
            wait = never,
            on_busy = Ok(Box::new(|| 4)),
        )]
        async fn computed(&self, ttl: &str) -> Result<Box<dyn Fn() -> u8 + Send>> {
            say("body");
            Ok(Box::new(|| 3))
        }

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
        assert_eq!(under("computed", ().computed("9")).await.unwrap()(), 3);
        let (not_a_number, _) = record(().computed("nine")).await;
        assert!(matches!(not_a_number, Err(Fault::Number(_))));
        assert_eq!(under("number", ().number()).await, 1);
    }
}

/// E8: a bare `async` block at the end, with or without `move`.
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

    struct Shop {
        id: u64,
    }

    impl Shop {
        #[distributed_lock(key = "shop:<self.id>/<part>")]
        fn without_move(&self, part: &u64) -> impl Future<Output = Result<u64>> + Send {
            say("call");
            async {
                say("body");
                Ok(self.id + *part)
            }
        }

        #[distributed_lock(key = "shop:<self.id>")]
        fn boxed_without_move(&self) -> Boxed<'_, Result<u64>> {
            Box::pin(async {
                say("body");
                Ok(self.id)
            })
        }
    }

    #[tokio::test]
    async fn run() {
        let shop = Shop { id: 3 };
        let (output, events) = record(async { shop.without_move(&4).await }).await;
        let expected = ["call", "acquire shop:3/4", "body", "release shop:3/4"];
        assert_eq!(
            (output, events),
            (Ok(7), expected.map(str::to_owned).into())
        );
        assert_eq!(under("shop:3", shop.boxed_without_move()).await, Ok(3));
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
