//! The counts of this thread, by name and labels.

use std::{cell::RefCell, collections::BTreeMap};

use metrics::{LocalRecorderGuard, set_default_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// A recorder of the test's own.
#[derive(Default)]
pub(crate) struct Recorded {
    recorder: DebuggingRecorder,
    /// A snapshot sets everything to zero: these are the sums of all.
    counts: RefCell<BTreeMap<String, f64>>,
    samples: RefCell<BTreeMap<String, Vec<f64>>>,
}

impl Recorded {
    /// Records what happens on this thread until the guard is dropped.
    pub(crate) fn start(&self) -> LocalRecorderGuard<'_> {
        set_default_local_recorder(&self.recorder)
    }

    fn read(&self) {
        let (mut counts, mut samples) = (self.counts.borrow_mut(), self.samples.borrow_mut());
        for (key, _, _, value) in self.recorder.snapshotter().snapshot().into_vec() {
            let labels = key.key().labels();
            let labels: Vec<_> = labels
                .map(|label| format!("{}={}", label.key(), label.value()))
                .collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            match value {
                #[allow(clippy::cast_precision_loss, reason = "no test counts that far")]
                DebugValue::Counter(count) => *counts.entry(name).or_default() += count as f64,
                DebugValue::Gauge(level) => *counts.entry(name).or_default() += level.into_inner(),
                DebugValue::Histogram(new) => {
                    let new = new.into_iter().map(f64::from);
                    samples.entry(name).or_default().extend(new);
                }
            }
        }
    }

    /// A counter or a gauge with its labels, such as `dlock_held{template=none,mode=exclusive}`; 0 if it is not there.
    pub(crate) fn count(&self, series: &str) -> f64 {
        self.read();
        self.counts.borrow().get(series).copied().unwrap_or(0.0)
    }

    pub(crate) fn samples(&self, series: &str) -> Vec<f64> {
        self.read();
        self.samples
            .borrow()
            .get(series)
            .cloned()
            .unwrap_or_default()
    }

    /// All counters and gauges of this name that are not zero, by their labels.
    pub(crate) fn all(&self, name: &str) -> BTreeMap<String, f64> {
        self.read();
        let counts = self.counts.borrow();
        let named = counts.iter().filter_map(|(series, count)| {
            let labels = series.strip_prefix(name)?.strip_prefix('{')?;
            (*count != 0.0).then(|| (labels.trim_end_matches('}').to_owned(), *count))
        });
        named.collect()
    }

    /// The sum of all series of a counter.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.all(name).values().sum()
    }

    /// How many samples all series of a histogram have.
    pub(crate) fn sampled(&self, name: &str) -> usize {
        self.read();
        let samples = self.samples.borrow();
        let named = samples
            .iter()
            .filter(|(series, _)| series.split('{').next() == Some(name));
        named.map(|(_, samples)| samples.len()).sum()
    }

    /// Everything that has begun is over, and has been counted so.
    #[track_caller]
    pub(crate) fn assert_settled(&self) {
        for gauge in ["dlock_waiting", "dlock_held", "dlock_disconnected"] {
            assert_eq!(self.all(gauge), BTreeMap::new(), "{gauge}");
        }
        let acquired = self.sum("dlock_acquired_total");
        #[allow(clippy::cast_precision_loss, reason = "no test counts that far")]
        let sampled = |name| self.sampled(name) as f64;
        assert_eq!(sampled("dlock_wait_seconds"), acquired);
        assert_eq!(sampled("dlock_held_seconds"), acquired);
    }
}

/// Records a story; whatever has begun in it is over by its end, and has been counted so.
pub(crate) async fn counted(story: impl AsyncFnOnce(&Recorded)) {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    story(&recorded).await;
    recorded.assert_settled();
}

/// The labels of one series and how often it was counted, for comparison with [`Recorded::all`].
pub(crate) fn once(labels: &str) -> BTreeMap<String, f64> {
    BTreeMap::from([(labels.to_owned(), 1.0)])
}
