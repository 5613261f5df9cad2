//! Modes: shared locks, permits, and lists in which some keys are shared.
//!
//! A body calls the next function inside itself, under a manager of its own: such managers are as separate
//! as processes are.

use std::pin::Pin;

use dlock::{
    FencingToken, KeyPart, LockError, LockManager, LockMode, blocking, distributed_lock,
    store::memory::MemoryStore, with_manager,
};
use tokio::sync::Barrier;

use crate::{Fault, Result, manager, record, say, under, while_held};

/// Managers with one store.
fn managers<const N: usize>() -> [LockManager; N] {
    let store = MemoryStore::new();
    [(); N].map(|()| {
        let manager = LockManager::builder().build_with_store(store.clone());
        manager.unwrap()
    })
}

/// The call of a function by a process. Boxed, as calls inside each other are large.
fn by<'a, F: Future + 'a>(
    manager: &LockManager,
    call: F,
) -> Pin<Box<dyn Future<Output = F::Output> + 'a>> {
    Box::pin(with_manager(manager.clone(), call))
}

fn is_busy<T>(output: &Result<T>) -> bool {
    matches!(output, Err(Fault::Lock(LockError::Busy { .. })))
}

/// What a body does while it runs.
trait Inside: Future<Output = Result> {}

impl<F: Future<Output = Result>> Inside for F {}

/// M1: readers are in together, and a writer is in alone.
mod m1 {
    use super::*;

    #[distributed_lock(key = "catalog:<shop>", mode = shared, wait = never)]
    async fn read(shop: u8, inside: impl Inside) -> Result {
        inside.await
    }

    #[distributed_lock(key = "catalog:<shop>", mode = exclusive, wait = never)]
    async fn write(shop: u8, inside: impl Inside) -> Result {
        inside.await
    }

    fn nothing() -> impl Inside {
        std::future::ready(Ok(()))
    }

    #[tokio::test]
    async fn of_several_processes() {
        let [a, b, c] = managers();
        let third = by(&c, write(1, nothing()));
        let second = by(&b, read(1, third));
        let refused = by(&a, read(1, second)).await;
        assert!(is_busy(&refused), "{refused:?}");

        let third = by(&c, read(1, nothing()));
        let second = by(&b, read(1, third));
        assert_eq!(by(&a, read(1, second)).await, Ok(()));

        let second = by(&b, read(1, nothing()));
        let refused = by(&a, write(1, second)).await;
        assert!(is_busy(&refused), "{refused:?}");

        let second = by(&b, write(2, nothing()));
        assert_eq!(by(&a, read(1, second)).await, Ok(()));
    }

    #[tokio::test]
    async fn of_one_process() {
        // Each body ends only if both run.
        let barrier = Barrier::new(2);
        let meet = || async {
            barrier.wait().await;
            Ok(())
        };
        let [manager] = managers();
        let both = async { tokio::try_join!(read(1, meet()), read(1, meet())) };
        assert_eq!(by(&manager, both).await, Ok(((), ())));
    }

    #[tokio::test]
    async fn inside_its_own_body() {
        let [manager] = managers();
        for nested in [
            by(&manager, read(1, write(1, nothing()))).await,
            by(&manager, read(1, read(1, nothing()))).await,
            by(&manager, write(1, read(1, nothing()))).await,
        ] {
            let is_refused = matches!(nested, Err(Fault::Lock(LockError::WouldDeadlock { .. })));
            assert!(is_refused, "{nested:?}");
        }
    }
}

/// M2: each form of a number of permits.
mod m2 {
    use super::*;

    mod limits {
        pub(super) const MOST: u32 = 2;
    }

    struct Pool<const N: u32>;

    impl<const N: u32> Pool<N> {
        const MOST: u32 = N;

        #[distributed_lock(key = "permits", permits = N, wait = never)]
        async fn of_type(&self, inside: impl Inside) -> Result {
            inside.await
        }

        #[distributed_lock(key = "permits", permits = Self::MOST, wait = never)]
        async fn associated(&self, inside: impl Inside) -> Result {
            inside.await
        }
    }

    struct Named<const MOST: u32>;

    impl<const MOST: u32> Named<MOST> {
        #[distributed_lock(key = "permits", permits = { MOST }, wait = never)]
        async fn of_type(&self, inside: impl Inside) -> Result {
            inside.await
        }
    }

    #[distributed_lock(key = "permits", permits = 2, wait = never)]
    async fn literal(inside: impl Inside) -> Result {
        inside.await
    }

    #[distributed_lock(key = "permits", permits = limits::MOST, wait = never)]
    async fn constant(inside: impl Inside) -> Result {
        inside.await
    }

    #[distributed_lock(key = "permits", permits = most, wait = never)]
    async fn argument(most: u32, inside: impl Inside) -> Result {
        inside.await
    }

    #[distributed_lock(key = "permits", permits = u32::try_from(most.len()).unwrap_or(1), wait = never)]
    async fn expression(most: &[u8], inside: impl Inside) -> Result {
        inside.await
    }

    #[distributed_lock(key = "permits", permits = MANY, wait = never)]
    async fn of_function<const MANY: u32>(inside: &mut (dyn Inside + Unpin)) -> Result {
        inside.await
    }

    macro_rules! made {
        ($most:literal) => {
            #[distributed_lock(key = "permits", permits = $most, wait = never)]
            async fn made(inside: impl Inside) -> Result {
                inside.await
            }
        };
    }
    made!(2);

    /// Calls `$first` while one permit is held. A second call inside it finds none left.
    macro_rules! check {
        ($($first:expr),* $(,)?) => { $({
            let [a, b, c] = managers();
            let guard = a.lock("permits").permits(2).acquire().await.unwrap();
            let is_in = std::cell::Cell::new(false);
            let inside = Box::pin(async {
                is_in.set(true);
                by(&c, literal(async { Ok(()) })).await
            });
            let first: &dyn Fn(_) -> _ = &$first;
            let output = by(&b, first(inside)).await;
            assert!(is_in.get() && is_busy(&output), "{}: {output:?}", stringify!($first));
            guard.release().await.unwrap();
        })* };
    }

    #[tokio::test]
    async fn run() {
        check!(
            |inside| literal(inside),
            |inside| constant(inside),
            |inside| argument(2, inside),
            |inside| expression(b"ab", inside),
            |inside| Pool::<2>.of_type(inside),
            |inside| Pool::<2>.associated(inside),
            |inside| Named::<2>.of_type(inside),
            |inside| made(inside),
        );
        let [a, b] = managers();
        let mut second = by(&b, literal(async { Ok(()) }));
        let first = of_function::<1>(&mut second);
        assert_eq!(by(&a, first).await, Ok(()), "the second may have two");
    }

    #[tokio::test]
    async fn none_is_refused() {
        let (output, events) = record(argument(0, async { Ok(()) })).await;
        let is_refused = matches!(
            output,
            Err(Fault::Lock(LockError::InvalidOption {
                option: "permits",
                ..
            }))
        );
        assert!(is_refused, "{output:?}");
        assert_eq!(events, [""; 0]);
    }
}

/// M3: lists in which some keys are shared, or all.
mod m3 {
    use super::*;

    #[distributed_lock(key = ["order:<id>", shared("tenant:<tenant>")], wait = never)]
    async fn settle(id: u8, tenant: &str, inside: impl Inside) -> Result {
        say("body");
        let _ = tenant;
        inside.await
    }

    #[distributed_lock(key = [shared("tenant:<tenant>")], wait = never)]
    async fn look(tenant: &str) -> Result {
        say("body");
        let _ = tenant;
        Ok(())
    }

    #[distributed_lock(
        key = [shared("tenant:<tenant>"), "slot"],
        permits = 2,
        wait = never,
        on_busy = Err(Fault::Refused)
    )]
    async fn limited(tenant: &str, inside: impl Inside) -> Result {
        inside.await
    }

    macro_rules! made {
        ($own:literal, $shared:literal) => {
            #[distributed_lock(key = [$own, shared($shared)], wait = never)]
            async fn made(id: u8) -> Result {
                say("body");
                let _ = id;
                Ok(())
            }
        };
    }
    made!("order:<id>", "tenant:x");

    #[tokio::test]
    async fn run() {
        let (output, events) = record(settle(1, "x", async { Ok(()) })).await;
        assert_eq!(output, Ok(()));
        let (order, tenant) = ("order:1", "tenant:x");
        let expected = [
            format!("acquire {order}"),
            format!("acquire {tenant}"),
            "body".to_owned(),
            format!("release {order}"),
            format!("release {tenant}"),
        ];
        assert_eq!(events, expected);
        let (output, events) = record(made(1)).await;
        assert_eq!(output, Ok(()));
        assert_eq!(events, expected);
        assert_eq!(under("tenant:x", look("x")).await, Ok(()));
    }

    #[tokio::test]
    async fn the_marked_key_alone_is_shared() {
        let (output, _) = record(async {
            let held = manager().lock("tenant:x").shared().acquire().await.unwrap();
            look("x").await.unwrap();
            settle(1, "x", async { Ok(()) }).await.unwrap();
            held.release().await.unwrap();
            let held = manager().lock("order:1").shared().acquire().await.unwrap();
            let output = settle(1, "x", async { Ok(()) }).await;
            held.release().await.unwrap();
            let of_writer = while_held("tenant:x", look("x")).await;
            [output, of_writer]
        })
        .await;
        assert!(output.iter().all(is_busy), "{output:?}");
    }

    #[tokio::test]
    async fn permits_are_for_the_other_keys() {
        let [a, b, c] = managers();
        let third = by(&c, limited("x", async { Ok(()) }));
        let second = by(&b, limited("x", third));
        let refused = by(&a, limited("x", second)).await;
        assert_eq!(refused, Err(Fault::Refused));
        let held = c.lock("slot").permits(3).acquire().await.unwrap();
        assert_eq!(by(&a, limited("x", async { Ok(()) })).await, Ok(()));
        held.release().await.unwrap();
        let held = c.lock("tenant:x").permits(1).acquire().await.unwrap();
        assert_eq!(by(&b, limited("x", async { Ok(()) })).await, Ok(()));
        held.release().await.unwrap();
    }
}

/// M4: plain functions.
mod m4 {
    use super::*;

    #[distributed_lock(key = "file:<name>", mode = shared, wait = never, on_lost = finish)]
    fn load(name: &str, inside: impl FnOnce() -> Result) -> Result {
        let _ = name;
        inside()
    }

    #[distributed_lock(key = "file:<name>", wait = never, on_lost = finish)]
    fn store(name: &str) -> Result {
        let _ = name;
        Ok(())
    }

    #[distributed_lock(key = "file:<name>", permits = most, wait = never, on_lost = finish)]
    fn parse(name: &str, most: u32) -> Result {
        let _ = name;
        Ok(())
    }

    #[distributed_lock(
        key = ["line:<line>", shared("file:<name>")],
        wait = never,
        on_lost = finish
    )]
    fn edit(name: &str, line: u32) -> Result {
        let _ = (name, line);
        Ok(())
    }

    #[test]
    fn run() {
        let [a, b] = managers();
        let inside_a_reader = |inside: fn() -> Result| {
            blocking::with_manager(a.clone(), || {
                load("x", || blocking::with_manager(b.clone(), inside))
            })
        };
        assert_eq!(inside_a_reader(|| load("x", || Ok(()))), Ok(()));
        assert_eq!(inside_a_reader(|| edit("x", 7)), Ok(()));
        assert_eq!(inside_a_reader(|| parse("x", 2)), Ok(()));
        let full = inside_a_reader(|| parse("x", 1));
        assert!(is_busy(&full), "{full:?}");
        let refused = inside_a_reader(|| store("x"));
        assert!(is_busy(&refused), "{refused:?}");
    }
}

/// M5: methods and generic functions, with the other options.
mod m5 {
    use super::*;

    struct Shelf {
        name: String,
        locks: LockManager,
    }

    impl Shelf {
        #[distributed_lock(
            key = "shelf:<self.name>",
            mode = shared,
            wait = never,
            manager = self.locks,
            lease = lease
        )]
        async fn count(&self) -> Result<FencingToken> {
            Ok(lease.fencing_token())
        }

        #[distributed_lock(
            key = "shelf:<self.name>",
            manager = self.locks,
            enabled = most > 0,
            permits = most,
            on_busy = skip
        )]
        async fn sort(&self, most: u32) -> Result<Option<u32>> {
            Ok(Some(most))
        }
    }

    #[distributed_lock(key = "import:<source>", mode = shared, on_cancel = detach)]
    async fn import<K: KeyPart + Send + Sync + 'static>(source: K) -> Result<K> {
        say("body");
        Ok(source)
    }

    /// A parameter may have the name of a mode.
    #[distributed_lock(key = "named:<shared>", mode = exclusive)]
    async fn named(shared: u8, exclusive: u8) -> Result<u8> {
        say("body");
        Ok(shared + exclusive)
    }

    #[tokio::test]
    async fn run() {
        let [locks, other] = managers();
        let name = "top".to_owned();
        let shelf = Shelf { name, locks };
        let held = other.lock("shelf:top").shared().acquire().await.unwrap();
        let epoch = held.fencing_token();
        assert_eq!(shelf.count().await, Ok(epoch), "both are in together");
        assert_eq!(shelf.sort(2).await, Ok(Some(2)));
        assert_eq!(shelf.sort(1).await, Ok(None));
        assert_eq!(shelf.sort(0).await, Ok(Some(0)), "it has no lock");
        held.release().await.unwrap();
        assert_eq!(under("import:7", import(7_u8)).await, Ok(7));
        assert_eq!(under("named:1", named(1, 2)).await, Ok(3));
        assert_eq!(LockMode::Permits(2).to_string(), "permits = 2");
    }
}
