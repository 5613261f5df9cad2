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

/// Constants, statics and unit structs, which no variable of the same name can hide. A handler of
/// actix is such a struct.
mod i4 {
    #![allow(
        non_upper_case_globals,
        dead_code,
        reason = "they are named like variables"
    )]
    use super::*;

    const error: u8 = 1;
    const site: u8 = 2;
    static guard: u8 = 3;
    const output: u8 = 4;
    static released: u8 = 5;

    #[actix_web::get("/value")]
    async fn value() -> String {
        String::new()
    }

    #[expect(non_camel_case_types, reason = "it is named like a variable")]
    struct lease;

    fn acquiring() {}

    #[distributed_lock(key = "items:<id>", on_busy = Ok(0), lease = proof)]
    async fn items(id: u8) -> Result<u8> {
        say("body");
        let _ = proof;
        Ok(id + error + site + guard + output + released)
    }

    #[distributed_lock(key = "handled:<id>", on_error = |_| 0)]
    async fn handled(id: u8) -> u8 {
        say("body");
        id
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("items:1", items(1)).await, Ok(16));
        assert_eq!(under("handled:1", handled(1)).await, 1);
    }
}

/// Methods of a trait that every type has.
mod i5 {
    #![allow(dead_code, reason = "the names are there to be in the way")]
    use super::*;

    struct Wrong;

    macro_rules! everything {
        ($($method:ident)*) => {
            trait Everything: Sized {
                $(fn $method(self) -> Wrong { Wrong })*
            }
            impl<T> Everything for T {}
        };
    }
    everything!(watch release lease options ttl wait renew on_lost max_hold settle poll key part);

    #[distributed_lock(
        key = "methods:<id>",
        ttl = "10s",
        wait = wait,
        max_hold = "1m",
        on_lost = finish,
        lease = lease
    )]
    async fn methods(id: u8, wait: std::time::Duration) -> Result<u8> {
        say("body");
        let _ = lease;
        Ok(id)
    }

    #[tokio::test]
    async fn run() {
        let methods = methods(1, std::time::Duration::ZERO);
        assert_eq!(under("methods:1", methods).await, Ok(1));
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
