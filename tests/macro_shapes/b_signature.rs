//! What a signature may contain.

use dlock::{KeyPart, distributed_lock};

use crate::{Result, assert_send, say, under};

/// B1: the visibility stays.
mod b1 {
    use super::*;

    mod inner {
        use super::*;

        #[expect(unreachable_pub, reason = "`pub` is the case")]
        #[distributed_lock(key = "public")]
        pub async fn public() -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "of-the-crate")]
        pub(crate) async fn of_the_crate() -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "of-a-module")]
        pub(in crate::b_signature) async fn of_a_module() -> Result {
            say("body");
            Ok(())
        }

        #[distributed_lock(key = "private")]
        async fn private() -> Result {
            say("body");
            Ok(())
        }

        pub(super) async fn call_private() -> Result {
            private().await
        }

        pub(super) struct Shop;

        impl Shop {
            #[distributed_lock(key = "method")]
            pub(super) async fn method(&self) -> Result {
                say("body");
                Ok(())
            }
        }
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("public", inner::public()).await, Ok(()));
        assert_eq!(under("of-the-crate", inner::of_the_crate()).await, Ok(()));
        assert_eq!(under("of-a-module", inner::of_a_module()).await, Ok(()));
        assert_eq!(under("private", inner::call_private()).await, Ok(()));
        assert_eq!(under("method", inner::Shop.method()).await, Ok(()));
    }
}

/// B2: qualifiers and names. `unsafe` is forbidden here and tested with the macro itself.
mod b2 {
    use super::*;

    #[expect(improper_ctypes_definitions, reason = "futures have no layout in C")]
    #[distributed_lock(key = "abi:<id>")]
    async extern "C" fn abi(id: u8) -> Result<u8> {
        say("body");
        Ok(id)
    }

    #[distributed_lock(key = "raw")]
    async fn r#match() -> Result {
        say("body");
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("abi:1", abi(1)).await, Ok(1));
        assert_eq!(under("raw", r#match()).await, Ok(()));
    }
}

/// B3: generics.
mod b3 {
    use super::*;

    #[distributed_lock(key = "item:<item>")]
    async fn generic<T, const N: usize>(item: &str, value: T) -> Result<[T; N]>
    where
        T: Copy + Send,
    {
        say("body");
        let _ = item;
        Ok([value; N])
    }

    #[distributed_lock(key = "part:<part>")]
    async fn part<P: KeyPart + Clone>(part: P) -> Result<P> {
        say("body");
        Ok(part.clone())
    }

    trait Stock<T = u8> {
        fn count(&self) -> T;

        #[distributed_lock(key = "stock:<name>")]
        async fn recount<N>(&self, name: N) -> Result<T>
        where
            N: KeyPart,
        {
            say("body");
            drop(name);
            Ok(self.count())
        }
    }

    struct Shop<'a, T, const N: usize> {
        name: &'a str,
        items: [T; N],
    }

    impl<T, const N: usize> Stock for Shop<'_, T, N> {
        fn count(&self) -> u8 {
            u8::try_from(N).unwrap()
        }
    }

    impl<'a, T: Clone + Send + Sync, const N: usize> Shop<'a, T, N> {
        const ITEMS: usize = N;

        #[distributed_lock(key = "shop:<self.name>")]
        async fn items(&self) -> Result<(&'a str, Vec<T>)> {
            say("body");
            Ok((self.name, self.items[..Self::ITEMS].to_vec()))
        }
    }

    #[tokio::test]
    async fn run() {
        let item = generic::<_, 2>("a/b", 1_u8);
        assert_eq!(under("item:a%2Fb", assert_send(item)).await, Ok([1, 1]));
        assert_eq!(under("part:7", assert_send(part(7_i64))).await, Ok(7));
        let shop = Shop {
            name: "nord",
            items: [3_u8, 4],
        };
        assert_eq!(under("stock:all", shop.recount("all")).await, Ok(2));
        let items = under("shop:nord", assert_send(shop.items())).await;
        assert_eq!(items, Ok(("nord", vec![3, 4])));
    }
}

/// B4: lifetimes that are not written, and borrows that are returned.
mod b4 {
    use super::*;

    struct Shop {
        name: String,
        orders: u32,
    }

    struct Name<'a>(&'a str);

    impl Shop {
        #[distributed_lock(key = "shop:<self.name>/<a>/<b>")]
        async fn several(&self, a: &str, b: &str) -> Result<&str> {
            say("body");
            let _ = (a, b);
            Ok(&self.name)
        }

        #[distributed_lock(key = "shop:<self.orders>")]
        async fn exclusive(&mut self) -> Result<&mut u32> {
            say("body");
            self.orders += 1;
            Ok(&mut self.orders)
        }

        #[distributed_lock(key = "shop:<name.0>")]
        async fn anonymous(&self, name: Name<'_>) -> Result<Name<'_>> {
            say("body");
            let _ = name;
            Ok(Name(&self.name))
        }
    }

    #[distributed_lock(key = "text:<text>")]
    async fn only_argument(text: &str) -> Result<Option<&str>> {
        say("body");
        Ok(text.get(1..))
    }

    #[tokio::test]
    async fn run() {
        let mut shop = Shop {
            name: "nord".to_owned(),
            orders: 1,
        };
        let name = {
            let (a, b) = ("1".to_owned(), "2".to_owned());
            let future = assert_send(shop.several(&a, &b));
            under("shop:nord/1/2", future).await.unwrap()
        };
        assert_eq!(name, "nord");
        *under("shop:1", shop.exclusive()).await.unwrap() += 1;
        assert_eq!(shop.orders, 3);
        let name = under("shop:x", shop.anonymous(Name("x"))).await.unwrap();
        assert_eq!(name.0, "nord");
        assert_eq!(
            under("text:abc", only_argument("abc")).await,
            Ok(Some("bc"))
        );
    }
}

/// B5: lifetimes that are written, and bounds between them.
mod b5 {
    use super::*;
    use std::cell::Cell;

    /// Invariant in its lifetime.
    struct Db<'c> {
        name: &'c str,
        last: Cell<&'c str>,
    }

    #[expect(single_use_lifetimes, reason = "it is named in a bound")]
    #[distributed_lock(key = "pair:<a>")]
    async fn bounded<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Result<&'a str> {
        say("body");
        Ok(if a.is_empty() { a } else { b })
    }

    #[distributed_lock(key = "db:<db.name>")]
    async fn invariant<'c>(db: &mut Db<'c>, to: &'c str) -> Result<&'c str> {
        say("body");
        tokio::task::yield_now().await;
        Ok(db.last.replace(to))
    }

    #[distributed_lock(key = "where:<a>")]
    async fn in_where<'a, 'b, T>(a: &'a str, b: &'b T) -> Result<&'a T>
    where
        'b: 'a,
        T: ?Sized + 'b,
    {
        say("body");
        let _ = a;
        Ok(b)
    }

    #[tokio::test]
    async fn run() {
        assert_eq!(under("pair:a", bounded("a", "b")).await, Ok("b"));
        let mut db = Db {
            name: "main",
            last: Cell::new("x"),
        };
        let to = "y".to_owned();
        assert_eq!(under("db:main", invariant(&mut db, &to)).await, Ok("x"));
        assert_eq!(db.last.get(), "y");
        assert_eq!(under("where:a", in_where("a", "b")).await, Ok("b"));
    }
}
