//! The keys that the code which is running right now holds, so that no task waits for itself.
//!
//! The body of a section is polled inside a [`Scope`]. What it awaits in place is polled inside it
//! too and would wait for ever; what it spawns is another task and only waits its turn. Task
//! identity alone would not do: two sections joined in one task do not wait for each other's end. It
//! is looked at besides: a body that drives a `LocalSet` polls tasks that are none of its business.

use std::cell::RefCell;

use tokio::task;

use crate::key::LockKey;

thread_local! {
    static HELD: RefCell<Vec<HeldKey>> = const { RefCell::new(Vec::new()) };
}

/// A key that the body of a section holds.
struct HeldKey {
    /// That of the manager.
    id: usize,
    key: LockKey,
    /// The task that polls the body; none in a `block_on`.
    task: Option<task::Id>,
}

/// While it lives, the running code holds some keys. Scopes end in the reverse order of their begin.
#[must_use]
pub(crate) struct Scope {
    keys: usize,
}

impl Drop for Scope {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.truncate(held.len() - self.keys));
    }
}

/// Begins a scope of `keys` under the manager with this `id`; it ends by unwinding as well.
pub(crate) fn enter<'a>(id: usize, keys: impl Iterator<Item = &'a LockKey>) -> Scope {
    HELD.with_borrow_mut(|held| {
        let (before, task) = (held.len(), task::try_id());
        held.extend(keys.map(|key| HeldKey {
            id,
            key: key.clone(),
            task,
        }));
        Scope {
            keys: held.len() - before,
        }
    })
}

/// `true` if the running code is inside a [`Scope`] of `key`, in the same task.
pub(crate) fn contains(id: usize, key: &LockKey) -> bool {
    HELD.with_borrow(|held| {
        let mut of_key = held.iter().filter(|held| held.id == id && held.key == *key);
        of_key.any(|held| held.task == task::try_id())
    })
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
