//! A resource that is protected by fencing tokens.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::Write;

/// The resource behind the locks: for each key it refuses a write whose token is less than the last one it
/// accepted. It remembers all attempts.
#[derive(Debug, Default)]
pub struct Register(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: HashMap<String, i64>,
    writes: Vec<Write>,
}

impl Register {
    /// Writes, unless a greater token has written; returns whether the write was accepted.
    pub fn write(&self, key: &str, [process, task]: [u32; 2], token: i64) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = state.last.get(key).is_none_or(|last| *last <= token);
        if accepted {
            state.last.insert(key.to_owned(), token);
        }
        state.writes.push(Write {
            key: key.to_owned(),
            process,
            task,
            token,
            accepted,
        });
        accepted
    }

    /// All that were tried so far, in their order.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.writes.clone()
    }
}
