//! What a parameter may be besides a name and a type, and fragments of other macros.

use std::fmt::Display;

use dlock::{KeyPart, distributed_lock};

use crate::{Result, assert_send, say, under};

/// B6: closures.
mod b6 {
    use super::*;

    #[distributed_lock(key = "over:<text>")]
    async fn higher_ranked<F>(text: &str, find: F) -> Result<String>
    where
        F: for<'x> Fn(&'x str) -> &'x str + Send,
    {
        say("body");
        Ok(find(text).to_owned())
    }

    #[distributed_lock(key = "async:<id>")]
    async fn asynchronous(id: u8, run: impl AsyncFn(u8) -> Result<u8>) -> Result<u8> {
        run(id).await
    }

    #[distributed_lock(key = "once:<id>")]
    async fn once(id: u8, run: impl FnOnce() -> String) -> Result<String> {
        say("body");
        let _ = id;
        Ok(run())
    }

    #[tokio::test]
    async fn run() {
        let found = higher_ranked("abc", |text| &text[1..]);
        assert_eq!(
            under("over:abc", assert_send(found)).await,
            Ok("bc".to_owned())
        );
        let add = 3;
        let sum = asynchronous(1, async |id| {
            say("body");
            tokio::task::yield_now().await;
            Ok(id + add)
        });
        assert_eq!(under("async:1", sum).await, Ok(4));
        let moved = "moved".to_owned();
        assert_eq!(
            under("once:1", once(1, || moved)).await,
            Ok("moved".to_owned())
        );
    }
}

/// B7: `impl Trait` as the type of an argument.
mod b7 {
    use super::*;

    #[distributed_lock(key = "<plain>/<reference>/<unsized>/<nested.len()>")]
    async fn many(
        plain: impl KeyPart + Send,
        reference: &(impl KeyPart + Sync),
        r#unsized: &(impl KeyPart + Sync + ?Sized),
        nested: Vec<impl Display + Send>,
        tuple: (impl Display + Send, Option<impl Display + Send>),
    ) -> Result<String> {
        say("body");
        let _ = (&plain, reference, r#unsized);
        let (one, two) = tuple;
        let two = two.map(|two| two.to_string()).unwrap_or_default();
        Ok(format!("{}{one}{two}", nested[0]))
    }

    #[tokio::test]
    async fn run() {
        let many = many(1, &2, "three", vec![4], ('5', Some("6")));
        assert_eq!(
            under("1/2/three/1", assert_send(many)).await,
            Ok("456".to_owned())
        );
    }
}

/// B8: fragments of `macro_rules`, which come in invisible groups.
mod b8 {
    use super::*;

    macro_rules! function {
        (
            $(#[$meta:meta])*
            $vis:vis $name:ident<$life:lifetime>($pat:pat, $param:ident: $ty:ty) -> $output:ty
            where $bound:path; $key:literal, $ttl:expr; $body:block
        ) => {
            $(#[$meta])*
            #[distributed_lock(key = $key, ttl = $ttl)]
            $vis async fn $name<$life, T: $bound>($pat: T, $param: &$life $ty) -> $output $body
        };
    }
    function! {
        #[doc = "Made."]
        #[inline]
        pub(super) made<'a>(more, id: str) -> Result<(&'a str, String)>
        where Display; "made:<id>", "10s"; {
            say("body");
            Ok((id, more.to_string()))
        }
    }

    macro_rules! attribute {
        ($attr:meta, $name:ident) => {
            #[$attr]
            async fn $name() -> Result {
                say("body");
                Ok(())
            }
        };
    }
    attribute!(distributed_lock(key = "whole", ttl = "5s"), whole_attribute);

    macro_rules! around_item {
        ($item:item) => {
            #[distributed_lock(key = "item:<id>")]
            $item
        };
    }
    around_item! {
        /// Whole.
        async fn whole_item(id: u8) -> Result<u8> {
            #![allow(clippy::let_and_return)]
            say("body");
            let output = Ok(id);
            output
        }
    }

    macro_rules! statements {
        ($($body:tt)*) => {
            #[distributed_lock(key = "tokens")]
            async fn tokens() -> Result<u8> { $($body)* }
        };
    }
    statements! { say("body"); Ok(1) }

    macro_rules! expression {
        ($body:expr) => {
            #[distributed_lock(key = "expression")]
            async fn expression() -> Result<u8> {
                $body
            }
        };
    }
    expression!(if true {
        say("body");
        Ok(2)
    } else {
        Ok(3)
    });

    #[tokio::test]
    async fn run() {
        assert_eq!(
            under("made:x", made(7, "x")).await,
            Ok(("x", "7".to_owned()))
        );
        assert_eq!(under("whole", whole_attribute()).await, Ok(()));
        assert_eq!(under("item:3", whole_item(3)).await, Ok(3));
        assert_eq!(under("tokens", tokens()).await, Ok(1));
        assert_eq!(under("expression", expression()).await, Ok(2));
    }
}

/// B10: parameters that are compiled on a condition.
mod b10 {
    use super::*;

    #[distributed_lock(key = "<a>/<b>")]
    async fn conditional(
        #[cfg(not(any()))] a: u8,
        #[cfg(any())] a: u64,
        #[cfg(any())] _gone: u64,
        #[cfg_attr(all(), allow(unused_variables))] b: u8,
    ) -> Result<u8> {
        say("body");
        Ok(a)
    }

    struct Shop(u8);

    impl Shop {
        #[distributed_lock(key = "<self.0>")]
        async fn receiver(#[cfg(not(any()))] &self, #[cfg(any())] gone: u8) -> Result<u8> {
            say("body");
            #[cfg(any())]
            drop(gone);
            Ok(self.0)
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("6/7", conditional(6, 7)).await, Ok(6));
        assert_eq!(under("8", Shop(8).receiver()).await, Ok(8));
    }
}

/// B11: attributes on parameters.
mod b11 {
    use super::*;

    #[distributed_lock(key = "<used>")]
    async fn attributes(
        used: u8,
        #[allow(unused_variables)] allowed: u8,
        #[expect(unused_variables, reason = "nobody uses it")] expected: u8,
        #[allow(unused_mut)] mut unchanged: u8,
    ) -> Result<u8> {
        say("body");
        Ok(used + unchanged)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("1", attributes(1, 2, 3, 4)).await, Ok(5));
    }
}
