//! Which keys the code that is running right now holds, so that nobody waits for himself.
//!
//! The body of a section is polled inside a [`Scope`]. What it awaits in place is polled inside it
//! too and would wait for ever; what it spawns is another task and only waits its turn. Task
//! identity would not do: two sections joined in one task do not wait for each other's end.

use std::cell::RefCell;

use crate::key::LockKey;

thread_local! {
    static HELD: RefCell<Vec<(usize, LockKey)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, the running code holds a key. Scopes end in the reverse order of their begin.
#[must_use]
pub(crate) struct Scope(());

impl Drop for Scope {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}

/// Begins a scope of `key` under the manager with this `id`; it ends by unwinding as well.
pub(crate) fn enter(id: usize, key: &LockKey) -> Scope {
    HELD.with_borrow_mut(|held| held.push((id, key.clone())));
    Scope(())
}

/// Whether the running code is inside a [`Scope`] of `key`.
pub(crate) fn contains(id: usize, key: &LockKey) -> bool {
    HELD.with_borrow(|held| {
        held.iter()
            .any(|(held_id, held)| *held_id == id && held == key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_ends_even_by_a_panic() {
        let key = LockKey::new("k").unwrap();
        let unwound = std::panic::catch_unwind(|| {
            let _scope = enter(1, &key);
            assert!(contains(1, &key) && !contains(2, &key));
            panic!("on purpose");
        });
        assert!(unwound.is_err());
        assert!(!contains(1, &key));
    }
}
