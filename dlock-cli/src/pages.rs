//! Passes locks on in pages while a listing of all of them is read.
//!
//! A listing of many locks takes minutes and does not fit in memory. So the first page comes at once, and a page is forgotten
//! when it is printed. A page is sorted by key; the pages follow each other as the store lists its keys.

use std::{collections::HashSet, mem, time::Duration};

use dlock::StoreError;
use dlock_admin::{Inspect, LockInfo, Overview};
use tokio::{sync::Notify, time::Instant};

use crate::exit::Failure;

/// The locks to list.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// Those whose keys match, or all.
    Matching(Option<String>),
    /// All, with the number of processes.
    Everything,
}

impl Wanted {
    /// Passes the wanted locks on as they are read, and returns the processes if everything was wanted.
    pub(crate) async fn list(
        &self,
        inspector: &dyn Inspect,
        part: &mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Result<Overview, StoreError> {
        match self {
            Self::Matching(pattern) => {
                let pattern = pattern.as_deref();
                inspector.locks_in_parts(pattern, part).await?;
                Ok(Overview::default())
            }
            Self::Everything => inspector.overview_in_parts(part).await,
        }
    }
}

/// A page with so many locks is passed on.
const FULL: usize = 500;

/// After so long, a page that is not full is passed on too.
const SOON: Duration = Duration::from_secs(1);

struct Pages<F> {
    pass_on: F,
    page: Vec<LockInfo>,
    /// A store may list a lock twice.
    keys: HashSet<Box<str>>,
    /// The time of the last page.
    passed: Instant,
}

impl<F: FnMut(&[LockInfo]) -> Result<(), Failure>> Pages<F> {
    fn add(&mut self, locks: Vec<LockInfo>) -> Result<(), Failure> {
        for lock in locks {
            if self.keys.insert(lock.key.as_str().into()) {
                self.page.push(lock);
            }
        }
        if self.page.len() >= FULL || self.passed.elapsed() >= SOON {
            self.pass()?;
        }
        Ok(())
    }

    fn pass(&mut self) -> Result<(), Failure> {
        self.passed = Instant::now();
        let mut page = mem::take(&mut self.page);
        page.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        if page.is_empty() {
            return Ok(());
        }
        (self.pass_on)(&page)
    }
}

/// Reads the wanted locks, and passes them on in pages, none of which is empty. Ends with the first failure of `pass_on`.
/// Returns the processes if everything was wanted.
pub(crate) async fn read(
    inspector: &dyn Inspect,
    wanted: Wanted,
    pass_on: impl FnMut(&[LockInfo]) -> Result<(), Failure> + Send,
) -> Result<Overview, Failure> {
    let mut pages = Pages {
        pass_on,
        page: Vec::new(),
        keys: HashSet::new(),
        passed: Instant::now(),
    };
    let (failed, mut failure) = (Notify::new(), None);
    let mut part = |locks| {
        if failure.is_none()
            && let Err(error) = pages.add(locks)
        {
            failure = Some(error);
            failed.notify_one();
        }
    };
    let read = tokio::select! {
        read = wanted.list(inspector, &mut part) => Some(read),
        () = failed.notified() => None,
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    // What was read before an outage is shown too.
    pages.pass()?;
    Ok(read.expect("a failure is noted before it ends the reading")?)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use dlock::{LockKey, StoreErrorKind, store::OwnerId};
    use dlock_admin::{Inspecting, ServerReport, Unlocked};

    use super::*;
    use crate::exit::Exit;

    /// A store that passes on these parts, and does not end unless it fails.
    struct Parts {
        parts: Vec<Vec<String>>,
        fails: bool,
    }

    fn failure() -> StoreError {
        StoreError::new(StoreErrorKind::Unreachable, "it has crashed")
    }

    impl Inspect for Parts {
        fn locks_in_parts<'a>(
            &'a self,
            _: Option<&'a str>,
            part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
        ) -> Inspecting<'a, Result<(), StoreError>> {
            Box::pin(async move {
                for keys in &self.parts {
                    part(keys.iter().map(LockInfo::new).collect());
                }
                if self.fails {
                    return Err(failure());
                }
                pending().await
            })
        }

        fn locks_of<'a>(
            &'a self,
            _: &'a [LockKey],
        ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
            Box::pin(ready(Err(failure())))
        }

        fn lock<'a>(
            &'a self,
            _: &'a LockKey,
        ) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
            Box::pin(ready(Err(failure())))
        }

        fn unlock<'a>(
            &'a self,
            _: &'a LockInfo,
            _: Option<OwnerId>,
        ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
            Box::pin(ready(Err(failure())))
        }

        fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
            Box::pin(ready(Vec::new()))
        }
    }

    fn keys(numbers: impl Iterator<Item = usize>) -> Vec<String> {
        numbers.map(|it| format!("n:{it:04}")).collect()
    }

    fn closed() -> Failure {
        Failure::new(Exit::Success, "the output was closed")
    }

    /// Reads the parts, until they end or the output is closed after so many pages.
    async fn pages(parts: Vec<Vec<String>>, fails: bool, most: usize) -> (Vec<Vec<String>>, Exit) {
        let mut pages: Vec<Vec<String>> = Vec::new();
        let store = Parts { parts, fails };
        let read = read(&store, Wanted::Matching(None), |page| {
            pages.push(page.iter().map(|it| it.key.clone()).collect());
            if pages.len() == most {
                Err(closed())
            } else {
                Ok(())
            }
        });
        let failure = read.await.expect_err("it does not end");
        (pages, failure.exit())
    }

    #[tokio::test]
    async fn a_full_page_is_passed_on_before_the_listing_ends_and_each_lock_once() {
        // The store lists them backwards, and some of them twice.
        let twice = keys((0..FULL).rev().chain(0..FULL / 2));
        let (pages, exit) = pages(vec![twice], false, 1).await;
        assert_eq!((pages, exit), (vec![keys(0..FULL)], Exit::Success));
    }

    #[tokio::test]
    async fn the_locks_before_an_outage_are_passed_on() {
        let parts = vec![keys(0..1), keys(1..3)];
        let (pages, exit) = pages(parts, true, usize::MAX).await;
        assert_eq!((pages.concat(), exit), (keys(0..3), Exit::Unavailable));
    }

    #[test]
    fn a_page_that_is_not_full_is_passed_on_after_a_while() {
        let mut passed = Vec::new();
        let mut pages = Pages {
            pass_on: |page: &[LockInfo]| {
                passed.push(page.len());
                Ok(())
            },
            page: Vec::new(),
            keys: HashSet::new(),
            // No time that a busy machine takes for this test.
            passed: Instant::now() + SOON * 3600,
        };
        for key in ["a", "b"] {
            pages.add(vec![LockInfo::new(key)]).expect("it takes all");
        }
        pages.passed = Instant::now()
            .checked_sub(SOON)
            .expect("it runs for longer than a second");
        pages.add(vec![LockInfo::new("c")]).expect("it takes all");
        assert_eq!(passed, [3]);
    }
}
