//! Several keys of one call: all of them or none, in whatever order they are named.

mod attribute;
mod contended;
mod dropped;
mod faults;
mod held;

use dlock::{FencingToken, LockManager, store::LockStore};

use crate::common::{ANSWER, Env, Wire, soon};

crate::common::for_every_store! {
    held {
        free_keys_take_one_round_trip,
        each_key_has_a_token_that_grows,
        equal_keys_are_taken_once,
        a_lease_that_is_taken_away_ends_the_body,
        a_guard_tells_the_loss_of_any_of_its_leases,
        sections_that_hold_one_of_the_keys_would_wait_for_themselves,
    }
    contended {
        calls_in_both_directions_never_wait_for_each_other,
        one_that_is_busy_leaves_the_others_free,
        who_waits_holds_what_comes_before_and_nothing_behind,
        a_wait_that_is_over_gives_everything_back,
        a_shutdown_refuses_who_waits_for_one_of_several,
    }
    dropped {
        an_acquisition_dropped_anywhere_leaves_nothing,
        a_waiter_dropped_anywhere_leaves_nothing,
        a_waiter_dropped_while_it_is_granted_passes_all_keys_on,
        a_run_dropped_anywhere_gives_all_keys_back,
        a_release_dropped_anywhere_is_carried_out_for_all_keys,
    }
}

/// A process over a store: a manager, and the connection in front of it.
struct Process<S> {
    manager: LockManager,
    wire: Wire<S>,
}

impl<S: LockStore> Process<S> {
    fn start(store: S) -> Self {
        let wire = Wire::new(store);
        let manager = LockManager::builder()
            .response_timeout(ANSWER)
            .build_with_store(wire.clone())
            .unwrap();
        Self { manager, wire }
    }

    /// Takes `key` and gives it back: nobody has it, and nobody is waited for.
    async fn assert_free(&self, key: &str) {
        let guard = soon(self.manager.lock(key).try_acquire()).await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("`{key}` is free"));
        soon(guard.release()).await.unwrap();
    }

    async fn is_free(&self, key: &str) -> bool {
        match soon(self.manager.lock(key).try_acquire()).await.unwrap() {
            None => false,
            Some(guard) => {
                soon(guard.release()).await.unwrap();
                true
            }
        }
    }
}

/// Two processes over one store.
async fn two<E: Env>() -> (E, Process<E::Store>, Process<E::Store>) {
    let env = E::start().await;
    let one = Process::start(env.store().await);
    let other = Process::start(env.store().await);
    (env, one, other)
}

/// Nothing is left of `keys` keys, here or in the store.
async fn assert_clean<E: Env>(env: &E, keys: usize, processes: &[&Process<E::Store>]) {
    let managers: Vec<_> = processes.iter().map(|process| &process.manager).collect();
    env.assert_clean(keys, &managers).await;
    for process in processes {
        process.wire.assert_nothing_is_owed();
    }
}

fn tokens(lease: &dlock::Lease) -> Vec<(String, FencingToken)> {
    let tokens = lease.fencing_tokens();
    tokens
        .map(|(key, token)| (key.to_string(), token))
        .collect()
}
