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
                renewer::heard(bearer, hint.owner, &effect);
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
