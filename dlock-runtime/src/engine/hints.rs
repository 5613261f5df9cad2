//! Passes wake-up messages of the store to the state: each is an event for the claim that it names.

use std::sync::Weak;

use super::{
    acquisition::{self, Engine, tell_bearer},
    renewer,
};
use crate::{
    state::Event,
    store::{Hint, HintReceiver},
};

impl HintReceiver for Weak<Engine> {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let Some(core) = self.upgrade() else {
            return false;
        };
        for entry in core.table.find(hint.key) {
            let granted = Event::Granted {
                fence: hint.fence,
                number: hint.number,
            };
            if let Some((bearer, effect)) = tell_bearer(&core, &entry, hint.owner, granted) {
                renewer::on_effect(bearer, hint.owner, &effect);
            }
        }
        true
    }

    fn look_again(&self) -> bool {
        let Some(core) = self.upgrade() else {
            return false;
        };
        acquisition::look_again(&core);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        api::manager::LockManager,
        owner::{ClientId, OwnerId},
        random::SystemRandom,
    };

    #[test]
    fn messages_are_wanted_for_as_long_as_there_is_a_manager() {
        let manager = LockManager::memory();
        let receiver = Arc::downgrade(&manager.core());
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let hint = Hint::new("k", owner, 1);
        assert!(receiver.hint(&hint), "also for a key that no task wants");
        assert!(receiver.look_again());
        drop(manager);
        assert!(!receiver.hint(&hint));
        assert!(!receiver.look_again());
    }
}
