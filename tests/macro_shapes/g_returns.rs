//! Return types, what is inferred from them, and which warnings stay.

use std::{convert::Infallible, fmt::Display};

use dlock::{LockError, distributed_lock};

use crate::{Fault, Result, assert_send, record, say, under, while_held};

/// G1: `impl Trait` inside the type.
mod g1 {
    use super::*;

    #[distributed_lock(key = "iterator:<id>")]
    async fn iterator(id: u8) -> Result<impl Iterator<Item = u8>> {
        say("body");
        Ok(std::iter::repeat_n(id, 2))
    }

    #[distributed_lock(key = "nested")]
    async fn nested() -> Result<(Vec<impl Display>, Option<Box<impl Fn(u8) -> u8>>), Fault> {
        say("body");
        Ok((vec!["a"], Some(Box::new(|one| one + 1))))
    }

    #[expect(clippy::elidable_lifetime_names, reason = "it is named once more")]
    #[distributed_lock(key = "borrowed")]
    async fn borrowed<'a>(text: &'a str) -> Result<impl Iterator<Item = char> + use<'a>> {
        say("body");
        Ok(text.chars())
    }

    #[distributed_lock(key = "error")]
    async fn error() -> Result<u8, impl From<LockError> + Display> {
        say("body");
        Ok::<_, Fault>(1)
    }

    #[distributed_lock(key = "opaque", wait = never, on_error = |_| vec![].into_iter())]
    async fn opaque(id: u8) -> impl Iterator<Item = u8> {
        say("body");
        vec![id].into_iter()
    }

    #[tokio::test]
    async fn run() {
        let iterator = under("iterator:9", assert_send(iterator(9))).await;
        assert_eq!(iterator.unwrap().collect::<Vec<_>>(), [9, 9]);
        let (list, add) = under("nested", nested()).await.unwrap();
        assert_eq!((list[0].to_string(), add.unwrap()(1)), ("a".to_owned(), 2));
        let borrowed = under("borrowed", borrowed("ab")).await.unwrap();
        assert_eq!(borrowed.collect::<String>(), "ab");
        assert!(under("error", error()).await.is_ok_and(|one| one == 1));
        assert_eq!(under("opaque", opaque(3)).await.collect::<Vec<_>>(), [3]);
    }
}

/// G2: coercions and conversions that the type decides about.
mod g2 {
    use super::*;
    use std::error::Error;

    type Function = Box<dyn Fn() -> u8 + Send>;

    #[distributed_lock(key = "boxed:<fail>")]
    async fn boxed(fail: bool) -> Result<Function, Box<dyn Error + Send + Sync>> {
        say("body");
        if fail {
            return Err("refused".into());
        }
        let three: u8 = "3".parse()?;
        Ok(Box::new(move || three))
    }

    #[distributed_lock(key = "reference")]
    async fn reference<'a>(text: &'a String, number: &'a u8) -> Result<&'a dyn Display> {
        say("body");
        if text.is_empty() {
            return Ok(number);
        }
        Ok(text)
    }

    #[distributed_lock(key = "slice")]
    async fn slice() -> Result<&'static [u8]> {
        say("body");
        Ok(&[1, 2])
    }

    #[distributed_lock(key = "function")]
    async fn function() -> Result<fn(u8) -> u8> {
        say("body");
        Ok(|one| one + 1)
    }

    #[distributed_lock(key = "inferred")]
    async fn inferred() -> Result<Vec<u8>> {
        say("body");
        Ok("1 2"
            .split(' ')
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?)
    }

    #[distributed_lock(key = "collected")]
    async fn collected() -> Result<Vec<u8>> {
        say("body");
        [Ok(1), Ok(2)].into_iter().collect()
    }

    #[distributed_lock(key = "default")]
    async fn default() -> Result<u64> {
        say("body");
        Ok(Default::default())
    }

    #[tokio::test]
    async fn run() {
        let three = under("boxed:false", assert_send(boxed(false))).await;
        assert_eq!(three.unwrap()(), 3);
        assert!(under("boxed:true", boxed(true)).await.is_err());
        let text = "a".to_owned();
        let text = under("reference", reference(&text, &1)).await.unwrap();
        assert_eq!(text.to_string(), "a");
        assert_eq!(under("slice", slice()).await, Ok(&[1, 2][..]));
        assert_eq!(under("function", function()).await.unwrap()(1), 2);
        assert_eq!(under("inferred", inferred()).await, Ok(vec![1, 2]));
        assert_eq!(under("collected", collected()).await, Ok(vec![1, 2]));
        assert_eq!(under("default", default()).await, Ok(0));
    }
}

/// G3: bodies of one expression, whose braces are not reported as unused.
mod g3 {
    #![deny(unused_braces, unused_parens)]
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "a body of one call")]
    fn told<T>(value: T) -> Result<T> {
        say("body");
        Ok(value)
    }

    #[distributed_lock(key = "call")]
    async fn call() -> Result<u8> {
        told(1)
    }

    #[distributed_lock(key = "path")]
    async fn path(output: Result<u8>) -> Result<u8> {
        output
    }

    #[distributed_lock(key = "match:<id>")]
    async fn matched(id: u8) -> Result<u8> {
        match id {
            0 => Err(Fault::Refused),
            more => told(more),
        }
    }

    #[distributed_lock(key = "macro")]
    async fn macro_call() -> Result<u8> {
        matches!(told(()), Ok(()))
            .then_some(1)
            .ok_or(Fault::Refused)
    }

    #[distributed_lock(key = "await")]
    async fn awaited() -> Result<u8> {
        call().await
    }

    #[distributed_lock(key = "closure")]
    async fn closure() -> Result<fn() -> u8> {
        told(|| 1)
    }

    #[distributed_lock(key = "block")]
    async fn block() -> Result<u8> {
        let one = { told(1)? };
        Ok(one)
    }

    #[expect(clippy::semicolon_if_nothing_returned, reason = "it is the case")]
    #[distributed_lock(key = "macro-statement", on_error = drop)]
    async fn macro_statement() {
        assert_eq!(told(1), Ok(1))
    }

    #[distributed_lock(key = "empty", on_error = drop)]
    async fn empty() {}

    #[tokio::test]
    async fn run() {
        assert_eq!(under("call", call()).await, Ok(1));
        assert_eq!(record(path(Ok(1))).await.0, Ok(1));
        assert_eq!(under("match:1", matched(1)).await, Ok(1));
        assert_eq!(record(matched(0)).await.0, Err(Fault::Refused));
        assert_eq!(under("macro", macro_call()).await, Ok(1));
        assert_eq!(record(awaited()).await.0, Ok(1));
        assert_eq!(under("closure", closure()).await.unwrap()(), 1);
        assert_eq!(under("block", block()).await, Ok(1));
        under("macro-statement", macro_statement()).await;
        assert_eq!(record(empty()).await.1, ["acquire empty", "release empty"]);
    }
}

/// G6: aliases, whose errors and values are not to be seen.
mod g6 {
    use super::*;

    type Outcome<T> = std::result::Result<T, Fault>;
    type Nothing = Outcome<()>;

    /// Takes any error, as those of `anyhow` and `eyre` do.
    #[derive(Debug)]
    struct AnyError(Box<dyn std::error::Error + Send + Sync>);

    impl<E: std::error::Error + Send + Sync + 'static> From<E> for AnyError {
        fn from(error: E) -> Self {
            Self(Box::new(error))
        }
    }

    trait Service {
        type Response;
    }

    impl Service for () {
        type Response = Outcome<u8>;
    }

    #[distributed_lock(key = "alias")]
    async fn alias() -> Outcome<u8> {
        say("body");
        Ok(1)
    }

    #[distributed_lock(key = "nothing")]
    async fn nothing() -> Nothing {
        say("body");
        Ok(())
    }

    #[distributed_lock(key = "any:<text>", wait = never)]
    async fn any_error(text: &str) -> Result<u8, AnyError> {
        say("body");
        Ok(text.parse()?)
    }

    #[distributed_lock(key = "associated")]
    async fn associated() -> <() as Service>::Response {
        say("body");
        Ok(1)
    }

    #[distributed_lock(key = "generic")]
    async fn generic<E: From<LockError>>() -> Result<u8, E> {
        say("body");
        Ok(1)
    }

    #[distributed_lock(key = "itself")]
    async fn the_lock_error() -> dlock_result::Result<u8> {
        say("body");
        Ok(1)
    }

    mod dlock_result {
        pub(super) type Result<T> = ::std::result::Result<T, dlock::LockError>;
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("alias", alias()).await, Ok(1));
        assert_eq!(under("nothing", nothing()).await, Ok(()));
        assert_eq!(under("any:7", any_error("7")).await.unwrap(), 7);
        let error = under("any:x", any_error("x")).await.unwrap_err();
        assert!(error.0.is::<std::num::ParseIntError>());
        let (busy, _) = record(while_held("any:7", any_error("7"))).await;
        let busy = busy.unwrap_err().0.downcast::<LockError>().unwrap();
        assert!(busy.is_busy(), "{busy}");
        assert_eq!(under("associated", associated()).await, Ok(1));
        assert_eq!(under("generic", generic::<Fault>()).await, Ok(1));
        assert_eq!(under("itself", the_lock_error()).await, Ok(1));
    }
}

/// G7: bodies that do not come to their end.
mod g7 {
    #![deny(unreachable_code, clippy::diverging_sub_expression, clippy::empty_loop)]
    use super::*;
    use crate::poll_once;

    #[distributed_lock(key = "loop")]
    async fn endless() -> Result<Infallible> {
        say("body");
        loop {
            tokio::task::yield_now().await;
        }
    }

    #[distributed_lock(key = "fails")]
    async fn only_fails() -> Result<Infallible> {
        say("body");
        Err(Fault::Refused)
    }

    #[distributed_lock(key = "never", on_error = |error| panic!("{error}"))]
    async fn never() -> ! {
        say("body");
        std::future::pending().await
    }

    #[distributed_lock(key = "panics")]
    async fn panics() -> Result<u8> {
        panic!("on purpose")
    }

    #[distributed_lock(key = "todo")]
    async fn unimplemented() -> Result<Infallible> {
        unimplemented!("on purpose")
    }

    #[distributed_lock(key = "exits")]
    async fn exits(early: bool) -> Result<u8> {
        say("body");
        if early {
            return Ok(1);
        }
        panic!("not early")
    }

    async fn unwinds<T: Send + 'static>(body: impl Future<Output = T> + Send + 'static) -> bool {
        tokio::spawn(body)
            .await
            .is_err_and(|error| error.is_panic())
    }

    #[tokio::test]
    async fn run() {
        let held = |key| {
            [
                format!("acquire {key}"),
                "body".into(),
                format!("release {key}"),
            ]
        };
        assert_eq!(record(async { poll_once(endless()) }).await.1, held("loop"));
        assert_eq!(record(async { poll_once(never()) }).await.1, held("never"));
        assert_eq!(under("fails", only_fails()).await, Err(Fault::Refused));
        assert_eq!(under("exits", exits(true)).await, Ok(1));
        let (unwound, _) = record(async {
            let manager = crate::manager();
            let unimplemented = dlock::with_manager(manager.clone(), unimplemented());
            unwinds(dlock::with_manager(manager, panics())).await && unwinds(unimplemented).await
        })
        .await;
        assert!(unwound);
    }
}

/// G8: functions without a value.
mod g8 {
    use super::*;

    #[distributed_lock(key = "none", wait = never, on_error = drop)]
    async fn none() {
        say("body");
    }

    #[distributed_lock(key = "unit", on_error = drop)]
    async fn unit() -> () {
        say("body");
    }

    #[distributed_lock(key = "early:<early>", on_error = |_error| ())]
    async fn early(early: bool) {
        if early {
            say("body");
            return;
        }
        say("to the end");
    }

    #[expect(clippy::semicolon_if_nothing_returned, reason = "it is the case")]
    #[distributed_lock(key = "expression", on_error = drop)]
    async fn expression() {
        say("body")
    }

    #[tokio::test]
    async fn run() {
        under("none", none()).await;
        under("unit", unit()).await;
        under("early:true", early(true)).await;
        let expected = ["acquire early:false", "to the end", "release early:false"];
        assert_eq!(record(early(false)).await.1, expected);
        under("expression", expression()).await;
    }

    #[tokio::test]
    async fn without_its_lock_it_does_nothing() {
        let ((), events) = record(while_held("none", none())).await;
        assert!(!events.contains(&"body".to_owned()), "{events:?}");
    }
}

/// G10: what the attribute allows for itself stays forbidden in the body.
mod g10 {
    use super::*;

    #[distributed_lock(key = "lints:<_named>", lease = lease)]
    async fn lints_of_the_body(_named: u8) -> Result<u8> {
        #![warn(clippy::shadow_unrelated, clippy::let_underscore_untyped)]
        #![expect(unreachable_code, unused_variables, unused_braces, unused_must_use)]
        #![expect(
            clippy::blocks_in_conditions,
            clippy::diverging_sub_expression,
            clippy::let_underscore_untyped,
            clippy::no_effect,
            clippy::shadow_unrelated,
            clippy::used_underscore_binding,
            reason = "the body is as bad as it can be"
        )]
        let output = 1;
        say("body");
        let unused = lease;
        let _ = output + 1;
        1 + 1;
        if { output == 0 } {
            let never: u8 = return Ok(2);
            say(format!("{never}"));
        }
        Ok::<(), Fault>(());
        let output = _named;
        Ok(output)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("lints:1", lints_of_the_body(1)).await, Ok(1));
    }
}
