//! Tracks the keys that the running code holds, so that a task does not wait for itself.
//!
//! The body of a lock is polled inside a [`Scope`]. A future that the body awaits in place is polled inside
//! it too, and would wait forever for the same key. A task that the body spawns is another task and only
//! waits its turn. The task id alone is not sufficient: two bodies that are joined in one task do not wait
//! for each other's end. It is compared as well, because a body that drives a `LocalSet` polls unrelated
//! tasks.

use std::cell::RefCell;

use tokio::task;

use crate::key::LockKey;

thread_local! {
    static HELD: RefCell<Vec<HeldKey>> = const { RefCell::new(Vec::new()) };
}

/// A key that a body holds.
struct HeldKey {
    /// The id of the manager.
    id: usize,
    key: LockKey,
    /// The task that polls the body; none in a `block_on`.
    task: Option<task::Id>,
}

/// While a scope exists, the running code holds some keys. Scopes end in the reverse order of their
/// beginning.
#[must_use]
pub(crate) struct Scope {
    keys: usize,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let keys = self.keys;
        // While a thread ends, its list may be gone already.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let before = held.len() - keys;
            held.truncate(before);
        });
    }
}

/// Begins a scope of `keys` under the manager with this `id`. Unwinding ends it as well.
pub(crate) fn enter<'a>(id: usize, keys: impl Iterator<Item = &'a LockKey>) -> Scope {
    let entered = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        let (before, task) = (held.len(), task::try_id());
        held.extend(keys.map(|key| HeldKey {
            id,
            key: key.clone(),
            task,
        }));
        held.len() - before
    });
    // In a destructor of a thread whose list is gone, no deadlock is detected.
    Scope {
        keys: entered.unwrap_or(0),
    }
}

/// Returns `true` if the running code is inside a [`Scope`] of `key`, in the same task.
pub(crate) fn contains(id: usize, key: &LockKey) -> bool {
    let found = HELD.try_with(|held| {
        let held = held.borrow();
        let mut of_key = held.iter().filter(|held| held.id == id && held.key == *key);
        of_key.any(|held| held.task == task::try_id())
    });
    found.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_even_by_a_panic() {
        let keys = ["k", "l"].map(|key| LockKey::new(key).unwrap());
        let unwound = std::panic::catch_unwind(|| {
            let _outer = enter(1, keys[..1].iter());
            let _inner = enter(2, keys.iter());
            assert!(contains(1, &keys[0]) && !contains(1, &keys[1]));
            assert!(contains(2, &keys[0]) && contains(2, &keys[1]));
            panic!("on purpose");
        });
        assert!(unwound.is_err());
        assert!(!contains(1, &keys[0]) && !contains(2, &keys[1]));
    }

    #[test]
    fn a_scope_ends_with_its_own_keys() {
        let keys = ["k", "l", "m"].map(|key| LockKey::new(key).unwrap());
        let _outer = enter(1, keys[..1].iter());
        drop(enter(1, keys[1..].iter()));
        assert!(contains(1, &keys[0]));
        assert!(!contains(1, &keys[1]) && !contains(1, &keys[2]));
    }
}
