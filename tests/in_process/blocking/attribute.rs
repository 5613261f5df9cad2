//! The attribute on a plain function.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use dlock::{Lease, LockError, LockManager, LostCause, Wait, blocking, distributed_lock};

use super::{LIMIT, memory, until};

#[derive(Debug)]
enum Fault {
    Lock,
    Number,
}

impl From<LockError> for Fault {
    fn from(_: LockError) -> Self {
        Self::Lock
    }
}

impl From<std::num::ParseIntError> for Fault {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Number
    }
}

/// Runs `body` with a manager of its own, and sees that nothing is left.
fn alone<T>(body: impl FnOnce() -> T) -> T {
    let (store, locks) = memory();
    let output = blocking::with_manager(locks.manager().clone(), body);
    // What follows a loss is sent behind the call.
    until(|| store.is_empty());
    output
}

#[test]
fn a_function_holds_its_lock_while_it_runs() {
    #[distributed_lock(key = "order:<id>", lease = lease, on_lost = finish)]
    fn settle(id: u64) -> Result<String, LockError> {
        Ok(format!(
            "{} {}",
            lease.key(),
            lease.remaining() > Duration::ZERO
        ))
    }

    assert_eq!(alone(|| settle(42)).unwrap(), "order:42 true");
}

#[test]
fn a_question_mark_and_a_return_leave_the_body_alone() {
    #[distributed_lock(key = "number", on_lost = finish)]
    fn number(text: &str) -> Result<u32, Fault> {
        if text.is_empty() {
            return Ok(0);
        }
        Ok(text.parse()?)
    }

    alone(|| {
        assert_eq!(number("").unwrap(), 0);
        assert_eq!(number("7").unwrap(), 7);
        assert!(matches!(number("x"), Err(Fault::Number)));
    });
}

struct Shop {
    locks: LockManager,
    stock: u32,
    name: String,
}

impl Shop {
    #[distributed_lock(key = "stock:<self.name>", manager = self.locks, on_lost = finish)]
    fn sell(&mut self, count: u32) -> Result<&mut u32, LockError> {
        self.stock -= count;
        Ok(&mut self.stock)
    }

    #[distributed_lock(key = "stock:<self.name>", manager = self.locks, on_lost = finish)]
    fn label<'a>(&'a self, other: &'a str) -> Result<&'a str, LockError> {
        Ok(if other.is_empty() { &self.name } else { other })
    }

    #[distributed_lock(key = "stock:<self.name>", manager = self.locks, on_lost = finish)]
    fn close(self) -> Result<String, LockError> {
        Ok(self.name)
    }
}

#[test]
fn methods_borrow_and_return_what_they_have_borrowed() {
    let (store, locks) = memory();
    let mut shop = Shop {
        locks: locks.manager().clone(),
        stock: 7,
        name: "nord".to_owned(),
    };
    *shop.sell(2).unwrap() += 1;
    assert_eq!(shop.stock, 6);
    assert_eq!(shop.label("").unwrap(), "nord");
    assert_eq!(shop.label("s\u{fc}d").unwrap(), "s\u{fc}d");
    assert_eq!(shop.close().unwrap(), "nord");
    assert!(store.is_empty());
}

#[test]
fn shapes_of_functions() {
    #[distributed_lock(key = "job:<name>", on_lost = finish)]
    fn generic<T>(name: &str, parts: impl Iterator<Item = T>) -> Result<usize, LockError>
    where
        T: AsRef<str> + Clone,
    {
        Ok(parts.map(|part| part.as_ref().len()).sum::<usize>() + name.len())
    }

    #[distributed_lock(key = "pair:<a>:<b>", on_lost = finish)]
    fn pattern(
        (a, b): (u32, u32),
        [first, ..]: [u8; 2],
        mut more: Vec<u8>,
    ) -> Result<usize, LockError> {
        more.push(first);
        Ok(more.len() + usize::try_from(a + b).unwrap_or(0))
    }

    #[distributed_lock(key = "all", on_lost = finish)]
    fn opaque() -> Result<impl Iterator<Item = u32>, LockError> {
        Ok((0..3).map(|number| number * 2))
    }

    #[distributed_lock(key = "extern", on_lost = finish, on_error = |_| -1)]
    extern "C" fn foreign(number: i32) -> i32 {
        number + 1
    }

    #[distributed_lock(key = "not-send", on_lost = finish)]
    fn not_send(shared: &std::rc::Rc<u32>) -> Result<std::rc::Rc<u32>, LockError> {
        Ok(shared.clone())
    }

    #[distributed_lock(key = "unit", on_lost = finish, on_error = |error| panic!("{error}"))]
    fn unit(done: &AtomicBool) {
        done.store(true, Ordering::SeqCst);
    }

    #[distributed_lock(key = "down:<depth>", on_lost = finish)]
    fn recursive(depth: u32) -> Result<u32, LockError> {
        if depth == 0 {
            return Ok(0);
        }
        Ok(recursive(depth - 1)? + 1)
    }

    #[derive(dlock::KeyPart)]
    struct Order {
        shop: u32,
        number: u64,
    }

    #[distributed_lock(key = "derived:<order>", lease = lease, on_lost = finish)]
    fn derived(order: &Order) -> Result<String, LockError> {
        Ok(lease.key().to_string())
    }

    macro_rules! locked {
        ($name:ident, $key:literal, $body:expr) => {
            #[distributed_lock(key = $key, on_lost = finish)]
            fn $name() -> Result<u32, LockError> {
                Ok($body)
            }
        };
    }
    locked!(made, "made", 7);

    alone(|| {
        assert_eq!(generic("abc", ["d", "ef"].iter()).unwrap(), 6);
        assert_eq!(pattern((1, 2), [9, 9], vec![1]).unwrap(), 5);
        assert_eq!(opaque().unwrap().sum::<u32>(), 6);
        assert_eq!(foreign(1), 2);
        assert_eq!(*not_send(&std::rc::Rc::new(3)).unwrap(), 3);
        let done = AtomicBool::new(false);
        unit(&done);
        assert!(done.into_inner());
        assert_eq!(recursive(3).unwrap(), 3);
        assert_eq!(made().unwrap(), 7);
        let (shop, number) = (3, 42);
        assert_eq!(derived(&Order { shop, number }).unwrap(), "derived:3%3a42");
    });
}

#[test]
fn several_keys_are_held_together() {
    #[distributed_lock(key = ["account:<from>", "account:<to>"], lease = lease, on_lost = finish)]
    fn transfer(from: u32, to: u32) -> Result<usize, LockError> {
        lease.ensure_held()?;
        Ok(lease.fencing_tokens().count())
    }

    assert_eq!(alone(|| transfer(7, 4)).unwrap(), 2);
    assert_eq!(alone(|| transfer(7, 7)).unwrap(), 1);
}

#[test]
fn a_busy_lock_has_a_value_of_its_own() {
    #[distributed_lock(key = "nightly", wait = never, on_busy = Ok(None), on_lost = finish)]
    fn nightly(day: u32) -> Result<Option<u32>, LockError> {
        Ok(Some(day))
    }

    let (_, locks) = memory();
    let held = locks.lock("nightly").acquire().unwrap();
    blocking::with_manager(locks.manager().clone(), || {
        assert_eq!(nightly(1).unwrap(), None);
        held.release().unwrap();
        assert_eq!(nightly(1).unwrap(), Some(1));
    });
}

#[test]
fn a_job_that_is_busy_is_skipped_and_one_that_is_switched_off_has_no_lock() {
    #[distributed_lock(key = "nightly", on_busy = skip, on_lost = finish, enabled = locked)]
    fn nightly(locked: bool) -> Result<Option<u32>, LockError> {
        Ok(Some(7))
    }

    let (_, locks) = memory();
    let held = locks.lock("nightly").acquire().unwrap();
    blocking::with_manager(locks.manager().clone(), || {
        assert_eq!(nightly(true).unwrap(), None);
        assert_eq!(nightly(false).unwrap(), Some(7));
        held.release().unwrap();
        assert_eq!(nightly(true).unwrap(), Some(7));
    });
}

#[test]
fn a_call_of_a_call_is_refused() {
    #[distributed_lock(key = "order:<id>", on_lost = finish)]
    fn outer(id: u32) -> Result<(), LockError> {
        inner(id)
    }

    #[distributed_lock(key = "order:<order>", wait = forever, on_lost = finish)]
    fn inner(order: u32) -> Result<(), LockError> {
        Ok(())
    }

    let refused = alone(|| outer(42));
    assert!(
        matches!(refused, Err(LockError::WouldDeadlock { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_lost_lease_is_told_after_the_body() {
    #[distributed_lock(
        key = "feed",
        // The body begins before it is over, also on a machine that stands still for a second.
        max_hold = "2s",
        lease = lease,
        on_lost = finish,
        on_error = |error| (false, Some(error))
    )]
    fn import(ended: &AtomicBool) -> (bool, Option<LockError>) {
        until(|| lease.is_lost());
        ended.store(true, Ordering::SeqCst);
        (true, None)
    }

    let ended = AtomicBool::new(false);
    let (_, error) = alone(|| import(&ended));
    assert!(
        matches!(
            error,
            Some(LockError::Lost {
                cause: LostCause::MaxHold,
                ..
            })
        ),
        "{error:?}"
    );
    assert!(ended.into_inner(), "a thread cannot be stopped");
}

#[test]
fn a_panic_gives_the_lock_back() {
    #[distributed_lock(key = "order:<id>", on_lost = finish)]
    fn fails(id: u32) -> Result<(), LockError> {
        panic!("on purpose {id}")
    }

    alone(|| {
        for id in [1, 1] {
            let panicked = catch_unwind(AssertUnwindSafe(|| fails(id))).unwrap_err();
            assert_eq!(panicked.downcast_ref::<String>().unwrap(), "on purpose 1");
        }
    });
}

#[test]
fn without_a_manager_or_inside_of_a_task_the_call_says_what_to_do() {
    #[distributed_lock(key = "order:<id>", on_lost = finish)]
    fn settle(id: u32) -> Result<(), LockError> {
        Ok(())
    }

    // No manager is installed for threads outside of `with_manager` in these tests, or one that others use.
    if dlock::installed().is_none() {
        let refused = settle(42);
        assert!(
            matches!(refused, Err(LockError::NotInstalled { .. })),
            "{refused:?}"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (_, locks) = memory();
    let refused =
        runtime.block_on(async { blocking::with_manager(locks.manager().clone(), || settle(42)) });
    assert!(
        matches!(refused, Err(LockError::WouldBlock { .. })),
        "{refused:?}"
    );
}

#[test]
fn arguments_end_before_the_lock_does() {
    struct Witness<'a>(&'a LockManager, &'a AtomicBool);

    impl Drop for Witness<'_> {
        fn drop(&mut self) {
            self.1.store(self.0.active_keys() > 0, Ordering::SeqCst);
        }
    }

    #[distributed_lock(key = "order", manager = locks, on_lost = finish)]
    fn takes(locks: &LockManager, _witness: Witness<'_>) -> Result<(), LockError> {
        Ok(())
    }

    let (_, locks) = memory();
    let is_held = AtomicBool::new(false);
    takes(locks.manager(), Witness(locks.manager(), &is_held)).unwrap();
    assert!(is_held.into_inner(), "it is dropped under the lock");
}

#[test]
fn threads_wait_for_each_other() {
    #[distributed_lock(key = "stock", manager = locks, wait = LIMIT, on_lost = finish)]
    fn sell(locks: &LockManager, stock: &std::cell::Cell<u32>) -> Result<(), LockError> {
        let seen = stock.get();
        thread::yield_now();
        stock.set(seen - 1);
        Ok(())
    }

    let (_, locks) = memory();
    let manager = locks.manager();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = std::cell::Cell::new(10);
                for _ in 0..10 {
                    sell(manager, &own).unwrap();
                }
                assert_eq!(own.get(), 0);
            });
        }
    });
    let helper = |lease: &Lease| lease.key().to_string();
    let asked = locks.lock("stock").wait(Wait::Never).run(helper);
    assert_eq!(asked.unwrap(), "stock");
}
