//! The trait of inspectors, which a store fills for the commands of operators.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use dlock_runtime::{
    LockKey,
    store::{OwnerId, StoreError, StoreErrorKind},
};

use crate::{
    doctor::{AnyStore, Judge},
    grants::Grants,
    model::{LockInfo, Overview, ServerReport, Unlocked},
    pace::Pace,
};

/// The future of a method of [`Inspect`].
pub type Inspecting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads the locks of a store for operators, and releases a lock by force.
///
/// A store of another crate implements it for pages that show locks, and for programs of operators. The commands `ls`, `inspect`,
/// `watch`, `unlock`, `top` and `doctor` take any inspector; in the command `dlock`, a store is a row of its sources. Five methods are
/// required, and [`pace`](Self::pace) where listings pause. The types of the answers have constructors: [`LockInfo::new`] and
/// others. No method acquires a lock, and only [`unlock`](Self::unlock) changes anything.
///
/// **Cost.** A listing must not delay the clients of the store: read in small steps, and pause between them. The
/// inspectors of dlock use at most 5 % of a server's time in any minute, which [`Pace`] sees to: 4 %, and half a
/// second at once after a rest, or after [`begin`](Self::begin). [`lift_limit`](Self::lift_limit) removes the pauses.
///
/// **Unknown values.** A value that a store cannot tell is `None` or absent: labels, processes and their number, fields of
/// [`ServerReport`]. [`grants`](Self::grants) may be [`Unsupported`](StoreErrorKind::Unsupported).
///
/// **Times** are by the clock of the store, not by the clock of the inspector.
///
/// # Cancel safety
///
/// Every future except that of [`unlock`](Self::unlock) can be dropped at any time.
///
/// ```
/// use dlock::{StoreError, admin::Inspect};
///
/// /// Returns the keys of all held locks in any store.
/// async fn held(inspector: &dyn Inspect) -> Result<Vec<String>, StoreError> {
///     let locks = inspector.locks(None).await?.into_iter();
///     Ok(locks.filter(|lock| lock.holder.is_some()).map(|lock| lock.key).collect())
/// }
/// # let _ = held;
/// ```
pub trait Inspect: Send + Sync {
    /// Lists the locks that have a holder or waiters, in the order of their keys. A `pattern` selects the matching keys;
    /// `*`, `?`, `[a-z]` and `\` have the meaning of Redis's `SCAN`.
    ///
    /// The default collects what [`locks_in_parts`](Self::locks_in_parts) passes on.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request.
    fn locks<'a>(
        &'a self,
        pattern: Option<&'a str>,
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(async move {
            let mut read = BTreeMap::new();
            self.locks_in_parts(pattern, &mut |part| note(&mut read, part))
                .await?;
            Ok(read.into_values().collect())
        })
    }

    /// Lists the same locks, and passes them to `part` as they are read, so that the caller need not keep them all and has the
    /// first ones early. A lock may be passed twice. Locks may come in any order: that of their keys in PostgreSQL and
    /// ZooKeeper, and within a part in Redis.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request. Some locks may have been passed on before.
    fn locks_in_parts<'a>(
        &'a self,
        pattern: Option<&'a str>,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<(), StoreError>>;

    /// Lists those of the given locks that have a holder or waiters, in the order of their keys.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request.
    fn locks_of<'a>(
        &'a self,
        keys: &'a [LockKey],
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>>;

    /// Returns one lock, or `None` if it has neither a holder nor waiters.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request.
    fn lock<'a>(&'a self, key: &'a LockKey)
    -> Inspecting<'a, Result<Option<LockInfo>, StoreError>>;

    /// Lists all locks and all processes.
    ///
    /// The default collects what [`overview_in_parts`](Self::overview_in_parts) passes on.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request.
    fn overview(&self) -> Inspecting<'_, Result<Overview, StoreError>> {
        Box::pin(async move {
            let mut read = BTreeMap::new();
            let mut part = |part| note(&mut read, part);
            let mut overview = self.overview_in_parts(&mut part).await?;
            overview.locks = read.into_values().collect();
            Ok(overview)
        })
    }

    /// Lists all locks and all processes, and passes the locks to `part` as they are read, so that the caller need not
    /// keep them all. The result has no locks. A lock may be passed twice: the later reading counts. Locks may come in any order,
    /// and without labels and processes that the result has.
    ///
    /// The default is for stores that know of no processes: it passes on the locks.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer or refuses the request. Some locks may have been passed on before.
    fn overview_in_parts<'a>(
        &'a self,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<Overview, StoreError>> {
        Box::pin(async move {
            self.locks_in_parts(None, part).await?;
            Ok(Overview::default())
        })
    }

    /// Force-releases the lease in `seen` if it still exists: that of `holder`, or without one those of all holders. The
    /// owner and the fence identify a lease. Without a `holder`, it also ends the leases of holders that began to share the
    /// lock after the inspection.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store does not answer, or refuses: then the lease was not ended, and
    /// [`has_no_effect`](StoreError::has_no_effect) is `true`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lease may or may not have been ended.
    fn unlock<'a>(
        &'a self,
        seen: &'a LockInfo,
        holder: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>>;

    /// Subscribes to the grants of locks to waiters. The default is for stores that do not publish them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it cannot subscribe. It is of the kind [`Unsupported`](StoreErrorKind::Unsupported) if the
    /// store does not publish grants.
    fn grants(&self) -> Inspecting<'_, Result<Grants, StoreError>> {
        let text = "this store does not publish grants; they are found by reading the locks";
        let error = StoreError::new(StoreErrorKind::Unsupported, text).with_advice();
        Box::pin(std::future::ready(Err(error.unsent())))
    }

    /// Reports on each server. A failure is part of the report.
    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>>;

    /// Returns the checks of this store, by which `dlock doctor` and the page judge its reports. The default has those that
    /// hold for every store.
    fn judge(&self) -> Arc<dyn Judge> {
        Arc::new(AnyStore)
    }

    /// Returns the limit on the server's time by which the listings of this inspector go, if it has one for all servers.
    fn pace(&self) -> Option<&Pace> {
        None
    }

    /// Returns the completed part of a listing of all locks, from 0 to 1. Returns `None` while none is in progress.
    fn progress(&self) -> Option<f64> {
        self.pace()?.progress()
    }

    /// Removes the limit on the server's time from now on.
    fn lift_limit(&self) {
        if let Some(pace) = self.pace() {
            pace.lift_limit();
        }
    }

    /// Lets the next listings use half a second of the server's time without a pause, as after a rest. Later calls have no
    /// effect. For the first inspector of a program that goes on to list locks: one that replaces it after a failure does
    /// without.
    fn begin(&self) {
        if let Some(pace) = self.pace() {
            pace.begin();
        }
    }
}

/// Adds locks to those that were read before; of one that was read twice the later reading counts.
fn note(read: &mut BTreeMap<String, LockInfo>, part: Vec<LockInfo>) {
    read.extend(part.into_iter().map(|lock| (lock.key.clone(), lock)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        doctor::{Facts, Finding, LockFacts, Severity, Topic, findings},
        model::{ClockReading, Denied},
    };

    /// A store of another crate, without locks and without checks of its own.
    #[derive(Default)]
    struct Empty(Vec<ServerReport>);

    impl Inspect for Empty {
        fn locks_in_parts<'a>(
            &'a self,
            _: Option<&'a str>,
            _: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
        ) -> Inspecting<'a, Result<(), StoreError>> {
            Box::pin(async { Ok(()) })
        }

        fn locks_of<'a>(
            &'a self,
            _: &'a [LockKey],
        ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn lock<'a>(
            &'a self,
            _: &'a LockKey,
        ) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
            Box::pin(async { Ok(None) })
        }

        fn unlock<'a>(
            &'a self,
            _: &'a LockInfo,
            _: Option<OwnerId>,
        ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
            Box::pin(async { Ok(Unlocked::Changed) })
        }

        fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
            Box::pin(async { self.0.clone() })
        }
    }

    #[tokio::test]
    async fn a_store_that_publishes_no_grants_says_so_for_good() {
        let inspector: &dyn Inspect = &Empty::default();
        let error = inspector.grants().await.unwrap_err();
        assert!(error.is_final() && error.has_no_effect(), "{error}");
        assert!(error.to_string().contains("does not publish"), "{error}");
        assert_eq!(inspector.overview().await.unwrap().process_count, None);
    }

    /// The findings of the doctor about the servers of another store.
    async fn findings_of(reports: Vec<ServerReport>) -> Vec<Finding> {
        let store = Empty(reports);
        let inspector: &dyn Inspect = &store;
        let mut facts = Facts::unknown();
        facts.servers = inspector.servers().await;
        facts.locks = Ok(LockFacts::of(&inspector.overview().await.unwrap()));
        let judge = inspector.judge();
        assert!(judge.is_available(&facts));
        assert_eq!(judge.layout(), None);
        findings(&*judge, &facts)
    }

    #[tokio::test]
    async fn a_store_without_checks_of_its_own_has_those_of_every_store_and_no_others() {
        let mut away = ServerReport::new("ram://b");
        let failure = StoreError::new(StoreErrorKind::Unreachable, "no route to host");
        away.failure = Some(failure);
        let mut bare = ServerReport::new("ram://a");
        let rule = |rule: &str, is_required| Denied::new(rule, "writing", is_required);
        bare.denied = vec![rule("grant write", true), rule("grant list", false)];
        bare.clock = Some(ClockReading::new(60_000_000, Duration::from_millis(1)));
        bare.round_trips = vec![Duration::from_secs(2); 20];
        // A field that the server of another product may have as well.
        bare.set("role", "slave");
        let found = findings_of(vec![bare, away]).await;
        let has = |topic: Topic, severity: Severity, part: &str| {
            let is_it = |it: &&Finding| it.topic == topic && it.severity == severity;
            let mut about = found.iter().filter(is_it);
            let says = |it: &Finding| {
                let texts = [Some(&it.what), it.why.as_ref(), it.advice.as_ref()];
                texts.into_iter().flatten().any(|text| text.contains(part))
            };
            assert!(about.any(says), "{topic:?} {part}: {found:#?}");
        };
        has(
            Topic::Clock,
            Severity::Note,
            "60 s ahead of this machine's clock",
        );
        has(Topic::Latency, Severity::Risk, "median 2000 ms");
        has(Topic::Locks, Severity::Ok, "0 locks held");
        has(Topic::Permissions, Severity::Broken, "grant write");
        has(Topic::Permissions, Severity::Note, "grant list");
        has(Topic::Connection, Severity::Broken, "no route to host");
        assert_eq!(found.len(), 6, "{found:#?}");
        // The report names no missing permission, and none is promised to be there.
        let known = findings_of(vec![ServerReport::new("ram://a")]).await;
        let topics: Vec<_> = known.iter().map(|it| it.topic).collect();
        assert_eq!(topics, [Topic::Locks], "{known:#?}");
        let shown = format!("{found:?} {known:?}");
        for word in [
            "Redis", "redis", "ACL", "INFO", "SLOWLOG", "PING", "Sentinel", "CONFIG",
        ] {
            assert!(!shown.contains(word), "{word}: {shown}");
        }
    }
}
