//! Processes of dlock and of a third-party client that contend for one key.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{FencingToken, LockManager, Wait};
use dlock_testkit::{Worker, eventually, machine_time, python};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use crate::common::{Env, HasServer, RawKeys};
use crate::interop::KEY;

const FOREIGNERS: usize = 2;
/// Of each manager.
const TASKS: usize = 2;
/// How often the lock is to change from one make to the other.
const CHANGES: usize = 30;

/// After so many sections of ours in a row, our tasks wait for a foreigner's.
const IN_A_ROW: usize = 8;

/// It takes a while on a loaded machine.
const LONG: Duration = Duration::from_secs(120);

/// One stay in the lock, by the clock of the machine.
#[derive(Clone, Debug)]
struct Section {
    enter: Duration,
    exit: Duration,
    /// Of ours only.
    token: Option<FencingToken>,
}

/// What both makes have noted.
struct Notes {
    ours: Mutex<Vec<Section>>,
    folder: TempDir,
    is_over: AtomicBool,
}

impl Notes {
    fn of_foreigner(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    fn stop_file(&self) -> PathBuf {
        self.folder.path().join("stop")
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        fs::write(self.stop_file(), "").unwrap();
    }

    /// Returns `true` if the last [`IN_A_ROW`] sections are ours.
    fn are_ours(&self) -> bool {
        let sections = self.sections();
        let last = sections.iter().rev().take(IN_A_ROW);
        last.filter(|it| it.token.is_some()).count() == IN_A_ROW
    }

    /// All sections in the order in which they began.
    fn sections(&self) -> Vec<Section> {
        let mut sections = self.ours.lock().unwrap().clone();
        for number in 0..FOREIGNERS {
            sections.extend(read(&self.of_foreigner(number)));
        }
        sections.sort_by_key(|section| section.enter);
        sections
    }
}

#[tokio::test]
async fn a_crowd_of_both_makes_never_overlaps_and_tokens_grow() {
    let env = RawKeys::start().await;
    let notes = Arc::new(Notes {
        ours: Mutex::default(),
        folder: tempfile::tempdir().unwrap(),
        is_over: AtomicBool::new(false),
    });
    let foreigners: Vec<_> = (0..FOREIGNERS)
        .map(|number| {
            let mut command = python();
            command.args(["-c", include_str!("crowd.py")]);
            command.args([&env.server().url(), KEY]);
            command.args([notes.of_foreigner(number), notes.stop_file()]);
            Worker::spawn(&mut command)
        })
        .collect();
    let (mut managers, mut tasks) = (Vec::new(), JoinSet::new());
    // A foreign release tells nobody. Who waits briefly and asks again finds it soon, and finds the
    // lock for who waits in the queue meanwhile.
    for wait in [Wait::Forever, Wait::For(Duration::from_millis(5))] {
        let manager = env.manager().await;
        for _ in 0..TASKS {
            tasks.spawn(take_part(manager.clone(), wait, notes.clone()));
        }
        managers.push(manager);
    }

    // Of two foreigners either may have all the luck for a while: they have no queue.
    eventually(LONG, "both makes have had many turns", async || {
        for foreigner in &foreigners {
            assert_eq!(foreigner.stderr(), "");
        }
        let has_had_one = |number| !read(&notes.of_foreigner(number)).is_empty();
        changes(&notes.sections()) >= CHANGES && (0..FOREIGNERS).all(has_had_one)
    })
    .await;
    notes.stop();
    for foreigner in &foreigners {
        let status = foreigner.wait(LONG).await;
        assert!(status.success(), "{}", foreigner.stderr());
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }

    let sections = notes.sections();
    for pair in sections.windows(2) {
        assert!(
            pair[0].exit <= pair[1].enter,
            "broken promise: two at once: {pair:?}"
        );
    }
    let tokens: Vec<_> = sections.iter().filter_map(|it| it.token).collect();
    assert!(
        tokens.is_sorted_by(|one, next| one < next),
        "broken promise: the token did not grow: {tokens:?}"
    );
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// How often the lock went from one make to the other.
fn changes(sections: &[Section]) -> usize {
    let is_ours = |section: &Section| section.token.is_some();
    let pairs = sections.windows(2);
    pairs
        .filter(|pair| is_ours(&pair[0]) != is_ours(&pair[1]))
        .count()
}

async fn take_part(manager: LockManager, wait: Wait, notes: Arc<Notes>) {
    while !notes.is_over.load(Ordering::Relaxed) {
        let guard = match manager.lock(KEY).wait(wait).acquire().await {
            Ok(guard) => guard,
            // The first answer may take longer than such a wait.
            Err(_) if wait != Wait::Forever => continue,
            Err(error) => panic!("it waits without limit: {error}"),
        };
        let enter = machine_time();
        sleep(Duration::from_micros(500)).await;
        let section = Section {
            enter,
            exit: machine_time(),
            token: Some(guard.fencing_token()),
        };
        notes.ours.lock().unwrap().push(section);
        guard.release().await.expect("it is not taken away");
        // A foreigner acquires the lock only when no task of ours waits. On a loaded machine one always waits.
        loop {
            sleep(Duration::from_millis(10)).await;
            if notes.is_over.load(Ordering::Relaxed) || !notes.are_ours() {
                break;
            }
        }
    }
}

/// What a foreigner has noted so far; its last line may be half a line.
fn read(file: &Path) -> Vec<Section> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let time = |word: &str| Duration::from_nanos(word.parse().unwrap());
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.split_once(' '))
        .map(|(enter, exit)| Section {
            enter: time(enter),
            exit: time(exit),
            token: None,
        })
        .collect()
}
