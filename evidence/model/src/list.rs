//! A short list that lies in the state itself, so that a state is copied and compared in one go.

use std::fmt;

/// At most `N` items, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct List<T, const N: usize>([Option<T>; N]);

impl<T: Copy, const N: usize> List<T, N> {
    pub(crate) const fn new() -> Self {
        Self([None; N])
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.0.iter().flatten().copied()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == N
    }

    pub(crate) fn get(&self, at: usize) -> Option<T> {
        self.0.get(at).copied().flatten()
    }

    pub(crate) fn push(&mut self, item: T) {
        let at = self.len();
        assert!(at < N, "there is room for it");
        self.0[at] = Some(item);
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let item = self.0.get_mut(at)?.take();
        self.0[at..].rotate_left(1);
        item
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        let kept = *self;
        *self = Self::new();
        for item in kept.iter().filter(is_kept) {
            self.push(item);
        }
    }
}

impl<T: Copy + Ord, const N: usize> List<T, N> {
    /// As a set: once, and in an order that says nothing of how it came about.
    pub(crate) fn insert(&mut self, item: T) {
        if self.iter().any(|it| it == item) {
            return;
        }
        self.push(item);
        let len = self.len();
        self.0[..len].sort_unstable();
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
