//! The history of one lock across processes, put in order and judged.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Mutex,
    time::Duration,
};

use dlock::{FencingToken, Lease};
use dlock_testkit::machine_time;
use serde::{Deserialize, Serialize};

/// One section of one task. Times are the machine's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Section {
    pub(crate) key: String,
    pub(crate) process: usize,
    pub(crate) task: usize,
    pub(crate) token: i64,
    /// The fence of its lease, which several sections may have had in turn.
    lease: u64,
    pub(crate) asked: Duration,
    pub(crate) acquired: Duration,
    /// When it was about to be given back.
    pub(crate) ended: Duration,
    /// Whether the lease was valid until then, if that was asked.
    pub(crate) is_lost: bool,
}

/// Where the tasks of one process note their sections.
#[derive(Default)]
pub(crate) struct Notes {
    sections: Mutex<Vec<Section>>,
    /// For others to read, even if this process is killed.
    file: Option<Mutex<File>>,
}

impl Notes {
    pub(crate) fn to(path: &Path) -> Self {
        Self {
            file: Some(Mutex::new(File::create_new(path).unwrap())),
            ..Self::default()
        }
    }

    /// Notes a section from now until the value is dropped, which comes before the guard's drop.
    pub(crate) fn begin(
        &self,
        key: &str,
        [process, task]: [usize; 2],
        asked: Duration,
        token: FencingToken,
    ) -> Running<'_> {
        let acquired = machine_time();
        let section = Section {
            key: key.to_owned(),
            process,
            task,
            token: token.to_i64(),
            lease: token.fence(),
            asked,
            acquired,
            ended: acquired,
            is_lost: false,
        };
        Running {
            notes: self,
            section: Some(section),
        }
    }

    pub(crate) fn take(&self) -> Vec<Section> {
        std::mem::take(&mut self.sections.lock().unwrap())
    }

    fn note(&self, section: Section) {
        match &self.file {
            Some(file) => {
                let line = serde_json::to_string(&section).unwrap() + "\n";
                file.lock().unwrap().write_all(line.as_bytes()).unwrap();
            }
            None => self.sections.lock().unwrap().push(section),
        }
    }
}

/// A section that has not ended yet. However it ends, it is noted.
pub(crate) struct Running<'a> {
    notes: &'a Notes,
    section: Option<Section>,
}

impl Running<'_> {
    /// Ends it; says whether its lease was valid to the end.
    pub(crate) fn end(mut self, lease: &Lease) -> bool {
        let mut section = self.section.take().expect("it ends once");
        section.ended = machine_time();
        // Asked after that, as the process may stand still at any point.
        section.is_lost = lease.is_lost();
        let is_lost = section.is_lost;
        self.notes.note(section);
        !is_lost
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut section) = self.section.take() {
            section.ended = machine_time();
            self.notes.note(section);
        }
    }
}

/// The sections of all processes.
pub(crate) struct History(Vec<Section>);

impl History {
    pub(crate) fn new(mut sections: Vec<Section>) -> Self {
        sections.sort_by_key(|section| section.acquired);
        Self(sections)
    }

    pub(crate) fn read(directory: &Path) -> Self {
        let mut sections = Vec::new();
        for file in fs::read_dir(directory).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            // The last line of a process that was killed may be half a line.
            let lines = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            sections.extend(lines.map(|line| serde_json::from_str(line).unwrap()));
        }
        Self::new(sections)
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.0
    }

    /// No two sections of a key overlap, and their tokens grow in the order in which they ran.
    ///
    /// A process that stands still cannot end its sections: those that lost their leases meanwhile
    /// do not count.
    pub(crate) fn assert_exclusive(&self) {
        let mut last = HashMap::<&str, &Section>::new();
        for section in self.0.iter().filter(|section| !section.is_lost) {
            if let Some(before) = last.insert(&section.key, section) {
                assert!(
                    before.ended <= section.acquired,
                    "broken promise: two at once:\n{before:?}\n{section:?}"
                );
                assert!(
                    before.token < section.token,
                    "broken promise: the token did not grow:\n{before:?}\n{section:?}"
                );
            }
        }
    }

    /// Nobody was forgotten while others had their turns: nobody waited longer than 2 s, or than a
    /// quarter of the whole time where the machine is so loaded that everything takes long. The time
    /// in which nobody had a turn, as the machine stood still, is added, but no more than 2 s of it.
    pub(crate) fn assert_nobody_was_forgotten(&self) {
        let (first, last) = (&self.0[0], &self.0[self.0.len() - 1]);
        let whole = last.ended.saturating_sub(first.acquired);
        // Before the first section all of them waited until all had come.
        let waited = |it: &&Section| it.acquired.saturating_sub(it.asked.max(first.acquired));
        let longest = self.0.iter().max_by_key(waited).unwrap_or(first);
        println!("waited {:?} of {whole:?}", waited(&longest));
        let turns = self.0.windows(2);
        let turns = turns.map(|two| two[1].acquired.saturating_sub(two[0].acquired));
        let short = Duration::from_secs(2);
        let standstill = turns.max().unwrap_or_default().min(short);
        let limit = short.max(whole / 4) + standstill;
        assert!(waited(&longest) <= limit, "of {whole:?}: {longest:?}");
    }

    /// The part in which all processes were at work.
    pub(crate) fn crowded(&self) -> Self {
        let mut spans = BTreeMap::new();
        for section in &self.0 {
            let acquired = section.acquired;
            let (_, last) = spans.entry(section.process).or_insert((acquired, acquired));
            *last = acquired;
        }
        let start = spans.values().map(|(first, _)| *first).max();
        let end = spans.values().map(|(_, last)| *last).min();
        let crowded = |section: &&Section| {
            start.is_some_and(|start| start <= section.acquired)
                && end.is_some_and(|end| section.acquired <= end)
        };
        Self(self.0.iter().filter(crowded).cloned().collect())
    }

    /// How many sections each process had.
    pub(crate) fn by_process(&self) -> BTreeMap<usize, usize> {
        count(self.0.iter().map(|section| section.process))
    }

    /// How many sections each task had.
    pub(crate) fn by_task(&self) -> BTreeMap<[usize; 2], usize> {
        count(self.0.iter().map(|section| [section.process, section.task]))
    }

    /// How many leases there were.
    pub(crate) fn leases(&self) -> usize {
        count(self.0.iter().map(|section| (&section.key, section.lease))).len()
    }
}

fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// All `parties` had something, and nobody less than half of what anybody had.
pub(crate) fn assert_even<K: std::fmt::Debug>(counts: &BTreeMap<K, usize>, parties: usize) {
    assert_eq!(counts.len(), parties, "somebody got nothing: {counts:?}");
    println!("sections: {counts:?}");
    let (least, most) = (counts.values().min(), counts.values().max());
    let even = least
        .zip(most)
        .is_some_and(|(least, most)| 2 * least >= *most);
    assert!(even, "somebody got less than half of another: {counts:?}");
}
