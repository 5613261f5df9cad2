//! The resource that a key protects.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use dlock_runtime::FencingToken;

use crate::grew;

/// A resource that sees each section, and refuses two at once and tokens that do not grow.
#[derive(Default)]
pub struct Resource {
    is_inside: AtomicBool,
    sections: Mutex<Vec<(usize, FencingToken)>>,
}

/// A section. It ends when it is dropped, so also with a body that is cancelled.
#[must_use = "dropping it ends the section"]
pub struct Inside<'a>(&'a AtomicBool);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Resource {
    /// Begins a section of a process.
    #[track_caller]
    pub fn enter(&self, process: usize, token: FencingToken) -> Inside<'_> {
        assert!(
            !self.is_inside.swap(true, Ordering::SeqCst),
            "broken promise: two are inside"
        );
        let inside = Inside(&self.is_inside);
        let mut sections = self.seen();
        grew(sections.last().map(|(_, last)| *last), token);
        sections.push((process, token));
        inside
    }

    /// No section has begun that has not ended.
    #[track_caller]
    pub fn is_left(&self) {
        assert!(
            !self.is_inside.load(Ordering::SeqCst),
            "broken promise: two are inside"
        );
    }

    /// The processes of the sections so far.
    #[must_use]
    pub fn entered(&self) -> Vec<usize> {
        self.seen().iter().map(|(process, _)| *process).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<(usize, FencingToken)>> {
        self.sections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
