//! Many runs, on all cores.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    flaw::Flaw,
    run::run,
    verdict::{Counts, Report},
};

/// The runs of all `seeds`, and the reports of those that have found something, by their seeds.
///
/// Ends early after `most` of these.
#[must_use]
pub fn run_many(seeds: std::ops::Range<u64>, flaw: Flaw, most: usize) -> (Counts, Vec<Report>) {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Counts::default(), Vec::new()));
    let threads = thread::available_parallelism().map_or(1, Into::into);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut counts = Counts::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let report = run(seed, flaw, false);
                    counts += report.counts.clone();
                    if !report.findings.is_empty() {
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.1.push(report);
                        if found.1.len() >= most {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                }
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.0 += counts;
            });
        }
    });
    let (counts, mut reports) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|report| report.seed);
    (counts, reports)
}
