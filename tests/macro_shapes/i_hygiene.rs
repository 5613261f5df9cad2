//! Names of the user's that are also names of the attribute's, of Rust's or of dlock's.

use dlock::distributed_lock;

use crate::{Result, assert_send, say, under};

/// Nothing is imported, and every name means something else.
mod i1 {
    #![no_implicit_prelude]
    #![allow(dead_code, reason = "the names are there to be in the way")]

    mod std {}
    mod core {}
    mod alloc {}
    mod dlock {}
    struct Result;
    struct Ok;
    struct Err;
    enum Option {
        Some,
        None,
    }
    #[allow(unused_imports, reason = "these too")]
    use self::Option::{None, Some};
    struct Future;
    struct Box;
    struct Pin;
    struct String;
    struct Vec;
    trait Into {}
    trait From {}
    trait Clone {}
    trait Send {}
    trait Drop {}

    #[::dlock::distributed_lock(
        key = "hostile:<id>",
        ttl = "1s",
        wait = "1s",
        on_lost = finish,
        on_busy = ::core::result::Result::Ok(0),
        lease = lease
    )]
    pub(super) async fn hostile(id: u8) -> super::Result<u8> {
        super::say("body");
        let _ = lease;
        ::core::result::Result::Ok(id)
    }

    #[::dlock::distributed_lock(key = "boxed:<id>", wait = ::core::time::Duration::ZERO)]
    pub(super) fn boxed(
        id: u8,
    ) -> ::core::pin::Pin<
        ::std::boxed::Box<
            dyn ::core::future::Future<Output = super::Result<u8>> + ::core::marker::Send,
        >,
    > {
        ::std::boxed::Box::pin(async move {
            super::say("body");
            ::core::result::Result::Ok(id)
        })
    }
}

#[tokio::test]
async fn i1() {
    assert_eq!(under("hostile:7", assert_send(i1::hostile(7))).await, Ok(7));
    assert_eq!(under("boxed:7", i1::boxed(7)).await, Ok(7));
}

/// The primitive types mean something else.
mod i2 {
    #![allow(non_camel_case_types, dead_code, reason = "on purpose")]
    use super::*;

    struct u8;
    struct u32;
    struct u64;
    struct usize;
    struct bool;
    struct str;

    #[distributed_lock(key = "types", ttl = "10s", max_hold = "1m", lease = lease)]
    async fn types(_: u8, _: u64) -> Result<bool> {
        say("body");
        let _ = lease;
        Ok(bool)
    }

    #[tokio::test]
    async fn run() {
        assert!(under("types", types(u8, u64)).await.is_ok());
    }
}

/// Macros mean something else.
mod i3 {
    #![allow(unused_macros, reason = "the names are there to be in the way")]
    use super::*;

    macro_rules! in_the_way {
        ($($name:ident)*) => {$(
            macro_rules! $name {
                () => { compile_error!("the wrong one") };
            }
        )*};
    }
    in_the_way!(concat file line column module_path panic unreachable stringify format matches);

    #[distributed_lock(key = "macros:<id>")]
    async fn macros(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("macros:1", macros(1)).await, Ok(1));
    }
}

/// dlock by another path.
mod i6 {
    use super::*;

    mod prelude {
        pub(super) use ::dlock as locks;
        pub(super) mod deep {
            pub(in super::super) use ::dlock::{__private, distributed_lock};
        }
    }

    #[prelude::locks::distributed_lock(crate = prelude::locks, key = "elsewhere", lease = lease)]
    async fn elsewhere() -> Result<String> {
        say("body");
        Ok(lease.key().to_string())
    }

    #[prelude::deep::distributed_lock(crate = self::prelude::deep, key = "deep")]
    async fn deep() -> Result {
        say("body");
        Ok(())
    }

    #[prelude::deep::distributed_lock(crate = crate::i_hygiene::i6::prelude::deep, key = "absolute")]
    async fn absolute() -> Result {
        say("body");
        Ok(())
    }

    macro_rules! by_crate {
        () => {
            by_crate!($crate::i_hygiene::i6::prelude::locks);
        };
        ($krate:path) => {
            #[distributed_lock(key = "crate", crate = $krate)]
            async fn by_crate() -> Result {
                say("body");
                Ok(())
            }
        };
    }
    by_crate!();

    #[tokio::test]
    async fn run() {
        let elsewhere = under("elsewhere", elsewhere()).await;
        assert_eq!(elsewhere, Ok("elsewhere".to_owned()));
        assert_eq!(under("deep", deep()).await, Ok(()));
        assert_eq!(under("absolute", absolute()).await, Ok(()));
        assert_eq!(under("crate", by_crate()).await, Ok(()));
    }
}

/// Functions and generics named as what the attribute makes.
mod i7 {
    use super::*;

    mod functions {
        use super::*;

        #[distributed_lock(key = "guard")]
        pub(super) async fn guard() -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "site:<key>")]
        pub(super) async fn site(key: u8) -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "dlock")]
        pub(super) async fn dlock() -> Result {
            say("body");
            Ok(())
        }
    }

    #[expect(non_camel_case_types, reason = "it is named like a variable")]
    #[distributed_lock(key = "generic:<error>")]
    async fn generic<'locked, output, const N: usize>(
        error: &'locked str,
        value: output,
    ) -> Result<(&'locked str, [output; N])>
    where
        output: Copy + Send,
    {
        say("body");
        Ok((error, [value; N]))
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("guard", functions::guard()).await, Ok(()));
        assert_eq!(under("site:1", functions::site(1)).await, Ok(()));
        assert_eq!(under("dlock", functions::dlock()).await, Ok(()));
        let generic = assert_send(generic::<_, 2>("e", 1_u8));
        assert_eq!(under("generic:e", generic).await, Ok(("e", [1, 1])));
    }
}
