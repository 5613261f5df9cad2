//! The shapes of functions that `#[distributed_lock]` must take, each compiled and run.
//!
//! Most bodies answer with the key of their lease: that shows that the lock was held, and which.

#![deny(warnings)]

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{Lease, LockError, LockManager, Wait, distributed_lock, with_manager};

/// An error as services have: lock failures are one case among others.
#[derive(Debug, PartialEq)]
enum Fault {
    Lock(LockError),
    Number,
    Refused,
}

impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for Fault {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Number
    }
}

type Result<T, E = Fault> = std::result::Result<T, E>;

fn key(lease: &Lease) -> String {
    lease.key().as_str().to_owned()
}

/// Runs `future` with a manager of its own, and checks that it leaves nothing locked.
async fn alone<F: Future>(future: F) -> F::Output {
    let manager = LockManager::memory();
    let output = with_manager(manager.clone(), future).await;
    manager.shutdown(Duration::from_secs(5)).await;
    assert_eq!(manager.active(), 0, "something is still locked");
    output
}

/// Runs `future` while somebody else holds `held`.
async fn while_held<F: Future>(held: &str, future: F) -> F::Output {
    let manager = LockManager::memory();
    let guard = manager.lock(held).acquire().await.expect("it is free");
    let output = with_manager(manager.clone(), future).await;
    guard.release().await.expect("it was held");
    output
}

fn assert_send<F: Future + Send>(future: F) -> F {
    future
}

mod functions {
    use super::*;

    #[distributed_lock(key = "order:<id>", ttl = "30s", lease = lease)]
    async fn free(id: u64) -> Result<String> {
        tokio::task::yield_now().await;
        Ok(format!("{} {id}", key(lease)))
    }

    #[distributed_lock(key = "order:<text>")]
    async fn early(text: &str) -> Result<u64> {
        let number: u64 = text.parse()?;
        if number > 9 {
            return Err(Fault::Refused);
        }
        for found in 0.. {
            if found == number {
                return Ok(found);
            }
        }
        Ok(0)
    }

    #[distributed_lock(key = "item:<item>", lease = lease)]
    async fn generic<T, const N: usize>(item: &str, value: &T) -> Result<(String, [T; N])>
    where
        T: Copy + Send + Sync,
    {
        let _ = item;
        Ok((key(lease), [*value; N]))
    }

    #[distributed_lock(key = "pair:<a>")]
    async fn lifetimes<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Result<&'a str> {
        Ok(if a.is_empty() { a } else { b })
    }

    #[distributed_lock(key = "impl:<part>")]
    async fn impls(
        part: impl dlock::KeyPart + Send,
        make: impl FnOnce() -> u8 + Send,
    ) -> Result<impl Iterator<Item = u8>> {
        let _ = &part;
        Ok(std::iter::repeat_n(make(), 2))
    }

    #[distributed_lock(key = "coerced")]
    async fn coerced(fail: bool) -> Result<Box<dyn Fn() -> u8>, Box<dyn std::error::Error>> {
        if fail {
            return Err("refused".into());
        }
        Ok(Box::new(|| 3))
    }

    #[distributed_lock(key = "inner")]
    async fn inner_attributes() -> Result<u8> {
        #![allow(unused_variables)]
        let unused = 1;
        Ok(2)
    }

    #[distributed_lock(key = "items")]
    async fn items() -> Result<u8> {
        const SITE: u8 = 1;
        static OPTIONS: u8 = 2;
        fn key() -> u8 {
            3
        }
        Ok(SITE + OPTIONS + key())
    }

    #[distributed_lock(key = "<key>:<guard>:<site>")]
    async fn our_names(key: u8, guard: u8, site: u8, output: u8, error: u8) -> Result<u8> {
        Ok(key + guard + site + output + error)
    }

    #[tokio::test]
    async fn run() {
        alone(async {
            assert_eq!(assert_send(free(7)).await.unwrap(), "order:7 7");
            assert_eq!(early("3").await, Ok(3));
            assert_eq!(early("30").await, Err(Fault::Refused));
            assert_eq!(early("x").await, Err(Fault::Number));
            assert_eq!(lifetimes("a", "b").await, Ok("b"));
            assert_eq!(impls(4, || 9).await.unwrap().collect::<Vec<_>>(), [9, 9]);
            assert_eq!(coerced(false).await.unwrap()(), 3);
            assert!(coerced(true).await.is_err());
            assert_eq!(inner_attributes().await, Ok(2));
            assert_eq!(items().await, Ok(6));
            assert_eq!(our_names(1, 2, 3, 4, 5).await, Ok(15));
            assert_eq!(
                generic::<_, 2>("a/b", &1_u8).await.unwrap(),
                ("item:a%2Fb".to_owned(), [1, 1])
            );
        })
        .await;
    }

    #[tokio::test]
    async fn nothing_happens_before_the_first_poll() {
        alone(async {
            drop(free(7));
            assert_eq!(free(7).await.unwrap(), "order:7 7");
        })
        .await;
    }

    #[distributed_lock(key = "above-a-test", manager = LockManager::memory())]
    #[tokio::test]
    async fn above_a_test_attribute() -> Result<()> {
        Ok(())
    }
}

mod methods {
    use super::*;

    #[derive(Clone)]
    struct Shop {
        name: String,
        orders: u32,
        locks: LockManager,
    }

    impl Shop {
        fn new() -> Self {
            Self {
                name: "nord".to_owned(),
                orders: 1,
                locks: LockManager::memory(),
            }
        }

        #[distributed_lock(key = "shop:<self.name>/<id>", manager = self.locks, lease = lease)]
        pub(super) async fn by_ref(&self, id: u64) -> Result<(String, &str)> {
            let _ = id;
            Ok((key(lease), &self.name))
        }

        #[distributed_lock(key = "shop:<self.orders>", manager = &self.locks)]
        pub(crate) async fn by_mut(&mut self) -> Result<&mut u32> {
            self.orders += 1;
            Ok(&mut self.orders)
        }

        #[distributed_lock(key = "shop:<self.name.len()>", manager = self.locks, lease = lease)]
        async fn by_value(self) -> Result<String> {
            Ok(self.name + " " + lease.key().as_str())
        }

        #[distributed_lock(key = "shop:<self.name>", manager = Arc::new(self.locks.clone()))]
        async fn by_arc(self: Arc<Self>) -> Result<usize> {
            Ok(Arc::strong_count(&self))
        }

        #[distributed_lock(key = "shop:<self.name>", manager = self.locks)]
        async fn by_pin(self: Pin<&mut Self>) -> Result<u32> {
            Ok(self.orders)
        }

        #[distributed_lock(key = "shop:<shop.name>", manager = shop.locks)]
        async fn associated(shop: &Self) -> Result<Self> {
            Ok(Self {
                orders: 0,
                ..shop.clone()
            })
        }
    }

    trait Till {
        fn take(&self, amount: u8) -> impl Future<Output = Result<u8>> + Send;

        #[distributed_lock(key = "till:both")]
        async fn take_twice(&self) -> Result<u8> {
            Ok(self.take(1).await? + self.take(2).await?)
        }
    }

    impl Till for Shop {
        #[distributed_lock(key = "till:<amount>", manager = self.locks)]
        async fn take(&self, amount: u8) -> Result<u8> {
            Ok(amount)
        }
    }

    #[tokio::test]
    async fn run() {
        let mut shop = Shop::new();
        let (key, name) = assert_send(shop.by_ref(5)).await.unwrap();
        assert_eq!((key.as_str(), name), ("shop:nord/5", "nord"));
        *shop.by_mut().await.unwrap() += 1;
        assert_eq!(shop.orders, 3);
        assert_eq!(alone(shop.take_twice()).await, Ok(3));
        assert_eq!(Shop::associated(&shop).await.unwrap().orders, 0);
        assert_eq!(Pin::new(&mut shop).by_pin().await, Ok(3));
        assert_eq!(Arc::new(shop.clone()).by_arc().await, Ok(1));
        assert_eq!(shop.by_value().await.unwrap(), "nord shop:4");
    }
}

mod patterns {
    use super::*;

    struct Path<T>(T);

    struct Order {
        id: u64,
        lines: Vec<u8>,
    }

    #[distributed_lock(key = "<shop>/<id>/<type>/<pair.1>/<number>", lease = lease)]
    async fn many(
        Path((shop, id)): Path<(u32, u64)>,
        mut seen: Vec<u8>,
        r#type: &str,
        pair: (u8, char),
        Order {
            id: number,
            lines: _,
        }: Order,
        _ignored: u8,
        _: u8,
    ) -> Result<String> {
        seen.push(1);
        let _ = (shop, id, r#type, pair, number);
        Ok(format!("{} {}", key(lease), seen.len()))
    }

    #[distributed_lock(key = "<r#fn>/<_named>")]
    async fn r#move(r#fn: u8, _named: u8) -> Result<u8> {
        Ok(r#fn)
    }

    #[distributed_lock(key = "<a>")]
    async fn conditional(
        #[cfg(not(any()))] a: u8,
        #[cfg(any())] a: u64,
        #[cfg(any())] _gone: u64,
    ) -> Result<u8> {
        Ok(a)
    }

    #[tokio::test]
    async fn run() {
        alone(async {
            let order = Order {
                id: 8,
                lines: Vec::new(),
            };
            assert!(order.lines.is_empty());
            assert_eq!(
                many(Path((1, 2)), vec![0], "x:y", (3, 'c'), order, 0, 0).await,
                Ok("1/2/x%3Ay/c/8 2".to_owned())
            );
            assert_eq!(r#move(4, 5).await, Ok(4));
            assert_eq!(conditional(6).await, Ok(6));
        })
        .await;
    }
}

mod boxed {
    use super::*;
    use async_trait::async_trait;

    struct Shop {
        name: String,
    }

    #[async_trait]
    trait Till: Send + Sync {
        async fn take(&self, id: u64, pair: (u8, u8), sum: u8) -> Result<(String, u8)>;

        async fn open(id: u64) -> Result<u64>
        where
            Self: Sized;

        #[distributed_lock(key = "till")]
        async fn close(&self) -> Result<u8> {
            Ok(1)
        }
    }

    #[async_trait]
    impl Till for Shop {
        #[distributed_lock(key = "till:<self.name>:<id>", lease = lease)]
        async fn take(&self, id: u64, (a, b): (u8, u8), mut sum: u8) -> Result<(String, u8)> {
            if id == 0 {
                return Err(Fault::Refused);
            }
            sum += a + b;
            Ok((key(lease), sum))
        }

        #[distributed_lock(key = "till:<id>")]
        async fn open(id: u64) -> Result<u64> {
            Ok(id)
        }
    }

    #[distributed_lock(key = "tail:<id>")]
    fn tail(id: u64) -> impl Future<Output = Result<u64>> + Send {
        let next = id + 1;
        async move {
            let one: u64 = "1".parse()?;
            Ok(next + one)
        }
    }

    type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    #[distributed_lock(key = "alias:<id>")]
    fn alias(id: &u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            if *id == 0 {
                return Err(Fault::Refused);
            }
            Ok(*id)
        })
    }

    #[tokio::test]
    async fn run() {
        alone(async {
            let shop: Box<dyn Till> = Box::new(Shop {
                name: "süd".to_owned(),
            });
            let (key, sum) = assert_send(shop.take(2, (3, 4), 5)).await.unwrap();
            assert_eq!((key.as_str(), sum), ("till:süd:2", 12));
            assert_eq!(shop.take(0, (3, 4), 5).await, Err(Fault::Refused));
            assert_eq!(shop.close().await, Ok(1));
            assert_eq!(Shop::open(9).await, Ok(9));
            assert_eq!(tail(1).await, Ok(3));
            assert_eq!(alias(&0).await, Err(Fault::Refused));
            assert_eq!(alias(&4).await, Ok(4));
        })
        .await;
    }
}

mod failures {
    use super::*;

    #[distributed_lock(key = "job:<id>", wait = never)]
    async fn by_from(id: u8) -> Result<u8> {
        Ok(id)
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_error = |error| error.to_string())]
    async fn by_closure(id: u8) -> String {
        format!("ran {id}")
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "handlers are given the error"
    )]
    fn report(error: LockError) -> u8 {
        if matches!(error, LockError::Busy { .. }) {
            200
        } else {
            201
        }
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_error = report)]
    async fn by_path(id: u8) -> u8 {
        id
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_error = drop)]
    async fn without_value(id: u8) {
        assert_ne!(id, 1, "the lock of 1 is taken");
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_error = |_| Vec::new().into_iter())]
    async fn opaque(id: u8) -> impl Iterator<Item = u8> {
        vec![id].into_iter()
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_busy = Ok(name))]
    async fn skipped(id: u8, name: String) -> Result<String> {
        Ok(format!("{name} ran {id}"))
    }

    #[distributed_lock(key = "job:<id>", wait = never, on_busy = 0, on_error = |_| 1)]
    async fn skipped_or_failed(id: &str) -> usize {
        id.len() + 10
    }

    #[tokio::test]
    async fn run() {
        while_held("job:1", async {
            assert!(matches!(
                by_from(1).await,
                Err(Fault::Lock(LockError::Busy { .. }))
            ));
            assert_eq!(by_from(2).await, Ok(2));
            assert!(by_closure(1).await.contains("job:1"));
            assert_eq!(by_closure(2).await, "ran 2");
            assert_eq!((by_path(1).await, by_path(2).await), (200, 2));
            without_value(1).await;
            without_value(2).await;
            assert_eq!((opaque(1).await.count(), opaque(2).await.count()), (0, 1));
            assert_eq!(skipped(1, "a".to_owned()).await, Ok("a".to_owned()));
            assert_eq!(skipped(2, "a".to_owned()).await, Ok("a ran 2".to_owned()));
            assert_eq!(skipped_or_failed("1").await, 0);
            assert_eq!(
                skipped_or_failed("").await,
                1,
                "an empty value makes no key"
            );
            assert_eq!(skipped_or_failed("22").await, 12);
        })
        .await;
    }

    #[tokio::test]
    async fn no_manager() {
        assert!(matches!(
            by_from(1).await,
            Err(Fault::Lock(LockError::NotInstalled { .. }))
        ));
    }
}

mod options {
    use super::*;

    const TTL: Duration = Duration::from_secs(9);

    mod config {
        pub(super) const HOLD: std::time::Duration = std::time::Duration::from_secs(60);
    }

    #[distributed_lock(
        key = "constants",
        ttl = TTL,
        wait = "5s",
        max_hold = config::HOLD,
        on_lost = finish,
        lease = lease,
    )]
    async fn constants() -> Result<Duration> {
        Ok(lease.remaining())
    }

    #[distributed_lock(key = "literals", ttl = "20s", wait = forever, renew = false, on_lost = cancel, lease = lease)]
    async fn literals() -> Result<Duration> {
        Ok(lease.remaining())
    }

    #[distributed_lock(key = "values", ttl = ttl, wait = patience, lease = lease)]
    async fn values(ttl: Duration, patience: Wait) -> Result<Duration> {
        Ok(lease.remaining())
    }

    #[distributed_lock(key = "calls", ttl = ttl * 2, wait = Duration::from_millis(5), lease = lease)]
    async fn calls(ttl: Duration) -> Result<Duration> {
        Ok(lease.remaining())
    }

    #[tokio::test]
    async fn run() {
        alone(async {
            for (remaining, ttl) in [
                (constants().await.unwrap(), 9),
                (literals().await.unwrap(), 20),
                (
                    values(Duration::from_secs(3), Wait::Never).await.unwrap(),
                    3,
                ),
                (calls(Duration::from_secs(4)).await.unwrap(), 8),
            ] {
                let ttl = Duration::from_secs(ttl);
                assert!(
                    remaining <= ttl && remaining > ttl / 2,
                    "{remaining:?} of {ttl:?}"
                );
            }
            let ttl = Duration::from_millis(1);
            let refused = values(ttl, Wait::Never).await;
            assert!(matches!(
                refused,
                Err(Fault::Lock(LockError::InvalidOption { .. }))
            ));
        })
        .await;
    }
}

mod macros {
    use super::*;

    macro_rules! make {
        ($name:ident, $key:literal, $id:ident: $ty:ty, $ttl:expr, $body:block) => {
            #[distributed_lock(key = $key, ttl = $ttl, lease = lease)]
            async fn $name($id: $ty) -> Result<($ty, String)> {
                let value: Result<$ty> = $body;
                Ok((value?, key(lease)))
            }
        };
    }
    make!(made, "made:<id>", id: u32, "10s", { Ok(id + 1) });

    macro_rules! template_inside {
        ($id:ident) => {
            #[distributed_lock(key = "inside:<id>")]
            async fn inside($id: u8) -> Result<u8> {
                Ok($id)
            }
        };
    }
    template_inside!(id);

    struct Shop {
        id: u32,
    }

    macro_rules! method {
        ($self:ident, $handler:expr) => {
            impl Shop {
                #[distributed_lock(key = "method:<self.id>", on_error = $handler)]
                async fn method(&$self) -> u32 {
                    $self.id
                }
            }
        };
    }
    method!(self, |_error| 0);

    mod prelude {
        pub(super) use ::dlock as locks;
    }

    #[prelude::locks::distributed_lock(crate = prelude::locks, key = "elsewhere")]
    async fn elsewhere() -> Result<u8> {
        Ok(1)
    }

    // Options that are more than expressions. Parsers see most fragments in invisible groups.
    macro_rules! words {
        ($lease:ident, $wait:ident, $lost:ident) => {
            #[distributed_lock(key = "words", lease = $lease, wait = $wait, on_lost = $lost)]
            async fn words() -> Result<String> {
                Ok(key($lease))
            }
        };
    }
    words!(lease, never, finish);

    macro_rules! values {
        ($locks:ident: $ty:ty, $krate:path, $manager:expr) => {
            #[distributed_lock(key = "values", crate = $krate, manager = $manager)]
            async fn values($locks: $ty) -> Result<u8> {
                Ok(1)
            }
        };
    }
    values!(locks: &LockManager, prelude::locks, locks as &LockManager);

    macro_rules! nested {
        ($renew:expr) => {
            nested!(@ $renew, $crate::macros::prelude::locks);
        };
        (@ $renew:expr, $krate:path) => {
            #[distributed_lock(key = "nested", renew = $renew, crate = $krate)]
            async fn nested() -> Result<u8> {
                Ok(1)
            }
        };
    }
    nested!(false);

    #[allow(dead_code)]
    mod hostile {
        #![no_implicit_prelude]
        mod std {}
        mod core {}
        mod dlock {}
        struct Option;
        struct Result;
        struct Ok;

        #[::dlock::distributed_lock(
            key = "hostile:<id>",
            ttl = "1s",
            wait = "1s",
            on_busy = ::core::result::Result::Ok(0),
            lease = lease
        )]
        pub(super) async fn run(id: u8) -> super::Result<u8> {
            let _ = lease;
            ::core::result::Result::Ok(id)
        }
    }

    #[tokio::test]
    async fn run() {
        alone(async {
            assert_eq!(made(1).await, Ok((2, "made:1".to_owned())));
            assert_eq!(inside(3).await, Ok(3));
            assert_eq!(Shop { id: 5 }.method().await, 5);
            assert_eq!(elsewhere().await, Ok(1));
            assert_eq!(words().await, Ok("words".to_owned()));
            assert_eq!(values(&LockManager::memory()).await, Ok(1));
            assert_eq!(nested().await, Ok(1));
            assert_eq!(hostile::run(7).await, Ok(7));
        })
        .await;
    }
}

mod drops {
    use super::*;

    struct Noisy(
        &'static str,
        LockManager,
        Arc<Mutex<Vec<(&'static str, bool)>>>,
    );

    impl Drop for Noisy {
        fn drop(&mut self) {
            let held = self.1.active() > 0;
            self.2.lock().expect("no panic").push((self.0, held));
        }
    }

    struct Two {
        a: Noisy,
        #[expect(dead_code, reason = "left behind by the body")]
        b: Noisy,
    }

    #[distributed_lock(key = "drops")]
    async fn body(used: Noisy, _unused: Noisy, two: Two, _: Noisy) -> Result<()> {
        let _used = &used;
        let _a = two.a;
        Ok(())
    }

    #[tokio::test]
    async fn arguments_drop_under_the_lock() {
        let manager = LockManager::memory();
        let seen = Arc::default();
        let noisy = |name| Noisy(name, manager.clone(), Arc::clone(&seen));
        let two = Two {
            a: noisy("a"),
            b: noisy("b"),
        };
        let body = body(noisy("used"), noisy("unused"), two, noisy("nameless"));
        with_manager(manager.clone(), body).await.unwrap();
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_unstable();
        assert_eq!(
            seen,
            [
                ("a", true),
                ("b", true),
                ("nameless", false),
                ("unused", true),
                ("used", true)
            ],
            "each with whether the lock was held"
        );
    }
}

/// Warnings that a user gets without the attribute are there with it: `deny(warnings)` above makes
/// an expectation that is not met an error.
mod lints {
    use super::*;

    #[expect(dead_code)]
    #[distributed_lock(key = "never-called")]
    async fn never_called() -> Result<()> {
        Ok(())
    }

    #[expect(unused_variables)]
    #[distributed_lock(key = "unused:<used>")]
    async fn unused(used: u8, unused: u8) -> Result<()> {
        Ok(())
    }

    #[expect(unused_must_use)]
    #[distributed_lock(key = "ignored")]
    async fn ignored() -> Result<()> {
        unused(1, 2).await;
        Ok(())
    }

    #[tokio::test]
    async fn run() {
        alone(async { assert_eq!(ignored().await, Ok(())) }).await;
    }
}

mod size {
    use super::*;

    type Page = [u8; 256];

    #[distributed_lock(key = "level:1")]
    async fn one() -> Result<Page> {
        tokio::task::yield_now().await;
        Ok([1; 256])
    }

    #[distributed_lock(key = "level:2")]
    async fn two() -> Result<Page> {
        one().await
    }

    #[distributed_lock(key = "level:3")]
    async fn three() -> Result<Page> {
        two().await
    }

    #[distributed_lock(key = "level:4")]
    async fn four() -> Result<Page> {
        three().await
    }

    /// Each level adds the same: were the body passed on to another async function, each would
    /// double what is below it.
    #[tokio::test]
    async fn nesting_is_linear() {
        let sizes = [
            size_of_val(&one()),
            size_of_val(&two()),
            size_of_val(&three()),
            size_of_val(&four()),
        ];
        println!("futures of nested locked calls: {sizes:?} bytes");
        let added: Vec<usize> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(added[2] <= added[0] + added[0] / 10, "{sizes:?}");
        assert!(sizes[0] < 2048, "{sizes:?}");
        alone(async { assert_eq!(four().await, Ok([1; 256])) }).await;
    }
}
