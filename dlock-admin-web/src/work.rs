//! Work that takes long for many locks, off the threads of the runtime: it may be that of a service which mounts the page, and
//! whose requests would wait.

use std::{future::pending, panic::resume_unwind, sync::Arc};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// The number of locks from which on work about all of them takes longer than a few milliseconds.
pub(super) const MANY: usize = 2000;

/// The work of one page. One piece of it is done at a time: a page with many browsers takes no more than one processor, and
/// memory for one piece.
#[derive(Debug)]
pub(super) struct PageWork(Arc<Semaphore>);

impl Default for PageWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl PageWork {
    /// Does a piece about so many locks: at once if they are few, else on a thread for blocking work.
    pub(super) async fn about<T: Send + 'static>(
        &self,
        locks: usize,
        piece: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if locks < MANY {
            return piece();
        }
        let turn = self.0.clone().acquire_owned().await;
        let done = spawn_blocking(move || {
            // The next one waits for the end also if the client of this one has left.
            let _turn = turn;
            piece()
        });
        match done.await {
            Ok(done) => done,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and with it the task that waits here.
                Err(_) => pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_that_of_the_caller() {
        let work = PageWork::default();
        let piece = work.about(MANY, || panic!("a mistake"));
        let panic = std::panic::AssertUnwindSafe(piece).catch_unwind().await;
        let panic = panic.map(|()| "none").unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a mistake"));
        assert_eq!(work.about(MANY, || 7).await, 7);
    }

    #[tokio::test]
    async fn many_locks_are_for_another_thread() {
        let (work, id) = (PageWork::default(), || thread::current().id());
        assert_eq!(work.about(MANY - 1, id).await, id());
        assert_ne!(work.about(MANY, id).await, id());
    }

    #[tokio::test]
    async fn one_piece_is_done_at_a_time() {
        let work = PageWork::default();
        let pieces = (0..20).map(|_| {
            let turns = work.0.clone();
            // The turns that are left to others meanwhile.
            work.about(MANY, move || turns.available_permits())
        });
        assert_eq!(join_all(pieces).await, [0; 20]);
    }
}
