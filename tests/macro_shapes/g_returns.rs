//! Return types, and what is inferred from them.

use std::fmt::Display;

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

    #[distributed_lock(key = "in-dyn")]
    async fn in_dyn() -> Result<Box<dyn Iterator<Item = impl Display>>> {
        say("body");
        Ok(Box::new([7].into_iter()))
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
        let in_dyn = under("in-dyn", in_dyn()).await.unwrap();
        assert_eq!(in_dyn.map(|one| one.to_string()).collect::<String>(), "7");
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
