//! What the attribute costs, and what it leaves as it is: size, `Send`, stack.

use std::{pin::Pin, rc::Rc};

use dlock::{Lease, LockGuard, LockManager, distributed_lock};

use crate::{Result, assert_send, record, say, under};

/// H1: each level of nested calls adds the same. Were the body passed on to another async
/// function, each would double what is below it.
#[expect(clippy::large_types_passed_by_value, reason = "it is the case")]
mod h1 {
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

    async fn plain() -> Result<Page> {
        tokio::task::yield_now().await;
        Ok([1; 256])
    }

    /// Arguments that live over an await are in the body's future, not beside it as well.
    async fn plain_with_arguments(id: u64, page: Page) -> Result<u64> {
        tokio::task::yield_now().await;
        Ok(id + u64::from(page[0]))
    }

    #[distributed_lock(key = "order:<id>", ttl = "9s", wait = "1s", lease = lease)]
    async fn with_arguments(id: u64, page: Page) -> Result<u64> {
        tokio::task::yield_now().await;
        lease.ensure_held()?;
        Ok(id + u64::from(page[0]))
    }

    /// What several keys need more is not in the future.
    #[distributed_lock(key = ["order:<id>", "page"], ttl = "9s", wait = "1s", lease = lease)]
    async fn with_two_keys(id: u64, page: Page) -> Result<u64> {
        tokio::task::yield_now().await;
        lease.ensure_held()?;
        Ok(id + u64::from(page[0]))
    }

    #[distributed_lock(key = "order:<id>", on_cancel = detach)]
    async fn detached(id: u64, page: Page) -> Result<u64> {
        tokio::task::yield_now().await;
        Ok(id + u64::from(page[0]))
    }

    #[test]
    fn the_lock_adds_little() {
        let (plain, one) = (size_of_val(&plain()), size_of_val(&one()));
        let page = [1; 256];
        let plain_with = size_of_val(&plain_with_arguments(1, page));
        let with = size_of_val(&with_arguments(1, page));
        assert_eq!(size_of_val(&with_two_keys(1, page)), with);
        let detached = size_of_val(&detached(1, page));
        println!("{plain} and {one}, with arguments {plain_with} and {with} ({detached}) bytes");
        assert!(one <= plain + 400, "{plain} and {one}");
        // Parameters of any async function lie in it once where they came, and once where they go.
        assert!(
            with <= plain_with + size_of::<Page>() + 200,
            "{plain_with} and {with}"
        );
        assert!(detached <= plain_with + 400, "{plain_with} and {detached}");
    }

    type Large = [u8; 1024];

    #[distributed_lock(key = "large:<id>")]
    async fn large(id: u64, page: Large) -> Result<u64> {
        tokio::task::yield_now().await;
        Ok(id + u64::from(page[0]))
    }

    #[distributed_lock(key = "large:<id>")]
    #[expect(unused_variables, reason = "it is the case")]
    async fn unused(id: u64, page: Large) -> Result<u64> {
        tokio::task::yield_now().await;
        Ok(id)
    }

    async fn by_hand(locks: &LockManager, id: u64, page: Large) -> Result<u64> {
        let guard = locks.lock(format!("large:{id}")).acquire().await?;
        tokio::task::yield_now().await;
        let output = id + u64::from(page[0]);
        guard.release().await?;
        Ok(output)
    }

    /// Any async function has its arguments twice: where they came, and where its body finds them.
    #[test]
    fn a_large_argument_is_held_once_more_than_by_hand() {
        let (locks, page) = (LockManager::memory(), [1; 1024]);
        let by_hand = size_of_val(&by_hand(&locks, 1, page));
        for locked in [size_of_val(&large(1, page)), size_of_val(&unused(1, page))] {
            println!("a large argument by hand {by_hand}, locked {locked} bytes");
            assert!(
                locked < by_hand + size_of::<Large>() + 256,
                "{by_hand} and {locked}"
            );
        }
    }

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
        let (output, events) = record(four()).await;
        assert_eq!(output, Ok([1; 256]));
        let expected = [
            "acquire level:4",
            "acquire level:3",
            "acquire level:2",
            "acquire level:1",
            "release level:1",
            "release level:2",
            "release level:3",
            "release level:4",
        ];
        assert_eq!(events, expected);
    }
}

/// H2: a deep stack of locked calls fits into that of a test's thread.
mod h2 {
    use super::*;

    #[async_recursion::async_recursion]
    #[distributed_lock(key = "depth:<depth>")]
    async fn deep(depth: u8) -> Result<usize> {
        tokio::task::yield_now().await;
        Ok(if depth == 0 {
            0
        } else {
            deep(depth - 1).await? + 1
        })
    }

    #[tokio::test]
    async fn run() {
        let (output, events) = record(deep(64)).await;
        assert_eq!(output, Ok(64));
        assert_eq!(events.len(), 2 * 65);
    }
}

/// H3: a future is `Send` if its body is, and need not be.
mod h3 {
    use super::*;
    use std::cell::Cell;

    #[distributed_lock(key = "local:<id>")]
    async fn local(id: u8, count: Rc<Cell<u8>>) -> Result<u8> {
        say("body");
        let more = Rc::new(id);
        tokio::task::yield_now().await;
        count.set(count.get() + *more);
        Ok(count.get())
    }

    // What the key borrows is given back before the first await.
    #[distributed_lock(key = "<cell.get()>")]
    async fn not_sync(cell: Cell<u8>) -> Result<u8> {
        say("body");
        tokio::task::yield_now().await;
        Ok(cell.get())
    }

    #[distributed_lock(key = "generic:<id>")]
    async fn generic<T>(id: u8, value: T) -> Result<T> {
        say("body");
        let _ = id;
        tokio::task::yield_now().await;
        Ok(value)
    }

    #[tokio::test]
    async fn run() {
        let count = Rc::new(Cell::new(1));
        assert_eq!(under("local:2", local(2, count.clone())).await, Ok(3));
        assert_eq!(count.get(), 3);
        assert_eq!(under("5", assert_send(not_sync(Cell::new(5)))).await, Ok(5));
        assert_eq!(under("generic:1", assert_send(generic(1, 7))).await, Ok(7));
        let local = under("generic:1", generic(1, Rc::new(7))).await;
        assert_eq!(local, Ok(Rc::new(7)));
    }
}

/// H4: a guard, and a lease that is borrowed, may be held over an await anywhere.
mod h4 {
    use super::*;

    fn assert_both<T: Send + Sync>() -> &'static str {
        std::any::type_name::<T>()
    }

    #[distributed_lock(key = "lease", lease = lease)]
    async fn borrows() -> Result<String> {
        say("body");
        helper(lease).await;
        let key = lease.key();
        tokio::task::yield_now().await;
        lease.ensure_held()?;
        Ok(key.to_string())
    }

    async fn helper(lease: &Lease) {
        tokio::task::yield_now().await;
        assert!(!lease.is_lost());
    }

    fn assert_sync<F: Future + Sync>(future: F) -> F {
        future
    }

    // Nothing of the lock keeps the future of a function from being shared, as `tower` and `hyper` did.
    #[distributed_lock(key = "sync:<id>", ttl = "9s", wait = "1s", lease = lease)]
    async fn sync(id: u8, names: Vec<String>) -> Result<String> {
        say("body");
        tokio::task::yield_now().await;
        lease.ensure_held()?;
        Ok(format!("{id}{}", names.concat()))
    }

    #[distributed_lock(key = ["sync:<id>", "two"], on_cancel = detach)]
    async fn detached(id: u8) -> Result<u8> {
        say("body");
        tokio::task::yield_now().await;
        Ok(id)
    }

    #[async_trait::async_trait]
    trait Till {
        #[distributed_lock(key = "boxed:<id>")]
        async fn boxed(&self, id: u8) -> Result<u8> {
            say("body");
            tokio::task::yield_now().await;
            Ok(id)
        }
    }

    impl Till for () {}

    #[tokio::test]
    async fn futures_are_sync_if_their_bodies_are() {
        let sync: Pin<Box<dyn Future<Output = _> + Send + Sync>> = Box::pin(sync(1, vec![]));
        assert_eq!(under("sync:1", sync).await, Ok("1".to_owned()));
        let (output, events) = record(assert_sync(detached(1))).await;
        assert_eq!((output, events[2].as_str()), (Ok(1), "body"));
        assert_eq!(under("boxed:1", ().boxed(1)).await, Ok(1));
    }

    #[tokio::test]
    async fn run() {
        assert!(assert_both::<LockGuard>().ends_with("LockGuard"));
        assert!(assert_both::<Lease>().ends_with("Lease"));
        let borrows = assert_send(borrows());
        assert_eq!(under("lease", borrows).await, Ok("lease".to_owned()));
    }
}

/// H5: `Send` that rustc has to prove for all lifetimes, of bodies for which it can.
mod h5 {
    use super::*;
    use futures_util::{StreamExt, stream};

    #[distributed_lock(key = "buffered:<prefix>")]
    async fn buffered(prefix: &str, texts: Vec<String>) -> Result<Vec<String>> {
        say("body");
        let texts = stream::iter(texts).map(|text| async move {
            tokio::task::yield_now().await;
            format!("{prefix}{text}")
        });
        Ok(texts.buffered(2).collect().await)
    }

    #[distributed_lock(key = "unordered", lease = lease)]
    async fn unordered(numbers: &[u8], found: impl Fn(u8) -> bool + Send + Sync) -> Result<usize> {
        say("body");
        let is_one = &found;
        let numbers = stream::iter(numbers.to_vec()).map(|number| async move {
            tokio::task::yield_now().await;
            lease.ensure_held().map(|()| usize::from(is_one(number)))
        });
        let numbers: Vec<_> = numbers.buffer_unordered(2).collect().await;
        Ok(numbers.into_iter().sum::<Result<usize, _>>()?)
    }

    #[tokio::test]
    async fn run() {
        let texts = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let buffered = assert_send(buffered("x", texts));
        let expected = ["xa", "xb", "xc"].map(str::to_owned);
        assert_eq!(under("buffered:x", buffered).await, Ok(expected.to_vec()));
        let unordered = assert_send(unordered(&[1, 2, 3], |number| number != 2));
        assert_eq!(under("unordered", unordered).await, Ok(2));
    }
}

/// H6: a backtrace from the body has one frame of the function more than without the attribute.
mod h6 {
    use super::*;
    use std::backtrace::Backtrace;

    /// Those of this module. Without debug information a backtrace has names and no files.
    fn frames() -> usize {
        let trace = Backtrace::force_capture().to_string();
        let names = trace.lines().filter_map(|line| line.split_once(": "));
        names
            .filter(|(_, name)| name.starts_with(module_path!()))
            .count()
    }

    #[distributed_lock(key = "locked")]
    async fn locked() -> Result<usize> {
        say("body");
        Ok(frames())
    }

    #[expect(clippy::unused_async, reason = "the same without the lock")]
    async fn plain() -> usize {
        frames()
    }

    #[tokio::test]
    async fn run() {
        let without = plain().await;
        assert!(without > 0, "no backtrace tells names");
        assert_eq!(under("locked", locked()).await, Ok(without + 1));
    }
}
