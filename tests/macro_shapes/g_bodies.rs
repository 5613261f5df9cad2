//! Bodies of one expression, without an end or without a value, and which warnings stay.

use std::convert::Infallible;

use dlock::distributed_lock;

use crate::{Fault, Result, poll_once, record, say, under, while_held};

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

    // Braces around several lines are never reported.
    #[rustfmt::skip]
    #[distributed_lock(key = "either")]
    async fn either() -> Result<u8> { #[cfg(test)] { told(1) } #[cfg(not(test))] { told(2) } }

    #[rustfmt::skip]
    #[distributed_lock(key = "const")]
    async fn const_block() -> Result<u8> { const { Ok(1) } }

    // A statement before these would be.
    #[distributed_lock(key = "function")]
    async fn function() -> Result<u8> {
        async fn inner() -> Result<u8> {
            call().await
        }
        inner().await
    }

    #[distributed_lock(key = "union")]
    async fn union_first() -> Result<usize> {
        #[expect(dead_code, reason = "only its size is asked for")]
        union Either {
            one: u8,
            four: u32,
        }
        told(size_of::<Either>())
    }

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
        assert_eq!(under("either", either()).await, Ok(1));
        assert_eq!(record(const_block()).await.0, Ok(1));
        assert_eq!(record(function()).await.0, Ok(1));
        assert_eq!(under("union", union_first()).await, Ok(4));
        assert_eq!(record(empty()).await.1, ["acquire empty", "release empty"]);
    }
}

/// G7: bodies that do not come to their end.
mod g7 {
    #![deny(unreachable_code, clippy::diverging_sub_expression, clippy::empty_loop)]
    use super::*;

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
