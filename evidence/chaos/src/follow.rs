//! Reads what the workers note, while they note it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use dlock_history::{End, Section};
use dlock_testkit::machine_time;

use crate::{
    notes::{self, Note},
    unseen::{Call, Sharing},
};

pub(crate) struct Follow {
    directory: PathBuf,
    files: BTreeMap<u32, Followed>,
    /// Sections that have ended.
    pub(crate) sections: Vec<Section>,
    /// Sections that began without a lease.
    pub(crate) late: Vec<Section>,
    /// Calls that may have shared a key without a section.
    pub(crate) unseen: Vec<Call>,
    /// Times in which the machine gave a process no processor.
    pub(crate) standstills: Vec<Stop>,
    /// Calls that came to nothing, by how.
    pub(crate) failed: BTreeMap<String, u64>,
    /// Transactions that were carried out.
    pub(crate) posted: usize,
    /// Those that have noted what they read, in the order in which that was seen.
    pub(crate) postings: Vec<Transaction>,
    reads: u64,
    /// The faults that tasks have seen.
    pub(crate) wrong: Vec<String>,
    entered: HashMap<String, Duration>,
}

/// A process stood still.
pub(crate) struct Stop {
    pub(crate) process: u32,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

struct Followed {
    file: Option<File>,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// The tasks that have asked, and have had no answer.
    waiting: HashSet<u32>,
    sharing: Sharing,
    open: HashMap<u64, Open>,
    /// The transactions of the tasks that have read an account, and whether they have gone on to write.
    transactions: HashMap<u32, (Transaction, bool)>,
}

/// A transaction that has read an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) process: u32,
    pub(crate) key: String,
    /// No other one has this number.
    number: u64,
}

struct Open {
    section: Section,
    is_blind: bool,
}

impl Follow {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
            sections: Vec::new(),
            late: Vec::new(),
            unseen: Vec::new(),
            standstills: Vec::new(),
            failed: BTreeMap::new(),
            posted: 0,
            postings: Vec::new(),
            reads: 0,
            wrong: Vec::new(),
            entered: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, process: u32) {
        let followed = Followed {
            file: None,
            rest: Vec::new(),
            waiting: HashSet::new(),
            sharing: Sharing::default(),
            open: HashMap::new(),
            transactions: HashMap::new(),
        };
        self.files.insert(process, followed);
    }

    /// Reads what has come.
    pub(crate) fn catch_up(&mut self) {
        let processes: Vec<_> = self.files.keys().copied().collect();
        for process in processes {
            for note in self.news(process) {
                self.take(process, note);
            }
        }
    }

    fn news(&mut self, process: u32) -> Vec<Note> {
        let followed = self.files.get_mut(&process).expect("it was added");
        if followed.file.is_none() {
            match File::open(notes::path(&self.directory, process)) {
                Ok(file) => followed.file = Some(file),
                // It has only just been started.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
                Err(error) => panic!("notes cannot be read: {error}"),
            }
        }
        let mut file = followed.file.as_ref().expect("it is open");
        file.read_to_end(&mut followed.rest)
            .expect("notes can be read");
        let whole = followed.rest.iter().rposition(|byte| *byte == b'\n');
        let Some(last) = whole else {
            return Vec::new();
        };
        let rest = followed.rest.split_off(last + 1);
        let lines = std::mem::replace(&mut followed.rest, rest);
        let lines = lines.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).expect("each line is a note"))
            .collect()
    }

    fn take(&mut self, process: u32, note: Note) {
        let Followed {
            waiting,
            sharing,
            open,
            transactions,
            ..
        } = self.files.get_mut(&process).expect("it was added");
        match note {
            Note::Asks { task } => _ = waiting.insert(task),
            Note::Shares {
                task,
                key,
                at,
                waits_for_others,
            } => sharing.asks(task, (key, at), waits_for_others),
            Note::Answered { task, at } => {
                waiting.remove(&task);
                self.unseen.extend(sharing.answered(task, at));
                transactions.remove(&task);
            }
            Note::In {
                section,
                key,
                mode,
                task,
                token,
                asked,
                at,
                is_blind,
            } => {
                waiting.remove(&task);
                sharing.entered(task);
                let entered = self.entered.entry(key.clone()).or_default();
                *entered = at.max(*entered);
                let begun = Section {
                    key,
                    mode,
                    process,
                    task,
                    token,
                    asked,
                    entered: at,
                    left: at,
                    end: End::Killed,
                };
                let begun = Open {
                    section: begun,
                    is_blind,
                };
                open.insert(section, begun);
            }
            Note::On { section, at } => {
                open.get_mut(&section).expect("it began").section.left = at;
            }
            Note::Out { section, at, end } => {
                let mut ended = open.remove(&section).expect("it began").section;
                (ended.left, ended.end) = (at, end);
                self.sections.push(ended);
            }
            Note::Late {
                key,
                mode,
                task,
                token,
                asked,
                at,
            } => self.late.push(Section {
                key,
                mode,
                process,
                task,
                token,
                asked,
                entered: at,
                left: at,
                end: End::Lost,
            }),
            Note::StoodStill { from, to } => self.standstills.push(Stop { process, from, to }),
            Note::Failed(how) => *self.failed.entry(how).or_default() += 1,
            Note::Read { task, key } => {
                self.reads += 1;
                let read = Transaction {
                    process,
                    key,
                    number: self.reads,
                };
                transactions.insert(task, (read, false));
            }
            Note::Writes { task } => {
                if let Some((_, writes)) = transactions.get_mut(&task) {
                    *writes = true;
                }
            }
            Note::Posted { task } => {
                self.posted += 1;
                let read = transactions.remove(&task);
                self.postings.extend(read.map(|(read, _)| read));
            }
            Note::Wrong(what) => self.wrong.push(what),
        }
    }

    /// A process is dead: its sections ended with its last signs of life.
    pub(crate) fn died(&mut self, process: u32) {
        self.catch_up();
        let followed = self.files.get_mut(&process).expect("it was added");
        followed.waiting.clear();
        self.unseen.extend(followed.sharing.died(machine_time()));
        let open = followed.open.drain().map(|(_, open)| open.section);
        self.sections.extend(open);
    }

    /// Whether a process is inside, as far as it has noted that.
    pub(crate) fn is_inside(&self, process: u32) -> bool {
        !self.files[&process].open.is_empty()
    }

    /// Whether a process is in no section, and wants one.
    pub(crate) fn is_waiting(&self, process: u32) -> bool {
        let followed = &self.files[&process];
        followed.open.is_empty() && !followed.waiting.is_empty()
    }

    /// Whether it is inside and will write without asking.
    pub(crate) fn is_inside_blindly(&self, process: u32) -> bool {
        let mut open = self.files[&process].open.values();
        open.any(|open| open.is_blind)
    }

    /// A transaction of a process that has read and has not gone on to write, as far as it has noted that.
    pub(crate) fn works(&self, process: u32) -> Option<&Transaction> {
        let mut all = self.files[&process].transactions.values();
        all.find(|(_, writes)| !writes).map(|(read, _)| read)
    }

    /// Whether a transaction has had an answer.
    pub(crate) fn has_ended(&self, read: &Transaction) -> bool {
        let mut all = self.files[&read.process].transactions.values();
        !all.any(|(it, _)| it == read)
    }

    /// Sections that should have ended by now.
    pub(crate) fn open(&self) -> Vec<&Section> {
        let open = self
            .files
            .values()
            .flat_map(|followed| followed.open.values());
        open.map(|open| &open.section).collect()
    }

    /// The keys without a new section after that moment.
    pub(crate) fn not_entered_since<'a>(&self, keys: &[&'a str], at: Duration) -> Vec<&'a str> {
        let is_late = |key: &&&str| self.entered.get(**key).is_none_or(|entered| *entered <= at);
        keys.iter().filter(is_late).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use dlock_history::Mode;
    use tempfile::TempDir;

    use super::*;
    use crate::notes::Notes;

    #[test]
    fn a_killed_process_was_inside_until_its_last_sign_of_life() {
        let directory = TempDir::new().unwrap();
        let mut follow = Follow::new(directory.path());
        follow.add(3);
        follow.catch_up();
        let notes = Notes::new(directory.path(), 3).unwrap();
        let at = Duration::from_secs;
        for (section, key) in [(notes.section(), "a"), (notes.section(), "b")] {
            notes.note(&Note::In {
                section,
                key: key.to_owned(),
                mode: Mode::Shared,
                task: 1,
                token: 9,
                asked: at(1),
                at: at(2),
                is_blind: key == "b",
            });
        }
        notes.note(&Note::On {
            section: 0,
            at: at(4),
        });
        notes.note(&Note::Out {
            section: 1,
            at: at(3),
            end: End::Lost,
        });
        let path = notes::path(directory.path(), 3);
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"{\"On\":{\"sec").unwrap();
        follow.catch_up();
        assert!(follow.is_inside(3) && !follow.is_inside_blindly(3));
        assert_eq!(follow.not_entered_since(&["a", "c"], at(1)), ["c"]);
        assert_eq!(follow.not_entered_since(&["a"], at(2)), ["a"]);
        follow.died(3);
        let seen: Vec<_> = follow.sections.iter().map(|it| (it.left, it.end)).collect();
        assert_eq!(seen, [(at(3), End::Lost), (at(4), End::Killed)]);
        assert!(follow.open().is_empty());
    }

    #[test]
    fn a_transaction_works_between_its_reads_and_its_writes() {
        let directory = TempDir::new().unwrap();
        let mut follow = Follow::new(directory.path());
        follow.add(1);
        let notes = Notes::new(directory.path(), 1).unwrap();
        let mut after = |note: Note| {
            notes.note(&note);
            follow.catch_up();
            let works = follow.works(1).map(|it| it.key.clone());
            (works, follow.postings.len(), follow.posted)
        };
        let read = |key: &str| Note::Read {
            task: 7,
            key: key.to_owned(),
        };
        let works = |key: &str| Some(key.to_owned());
        assert_eq!(after(read("a")), (works("a"), 0, 0));
        assert_eq!(after(Note::Writes { task: 7 }), (None, 0, 0));
        assert_eq!(after(Note::Posted { task: 7 }), (None, 1, 1));
        assert_eq!(after(Note::Posted { task: 7 }), (None, 1, 2));
        assert_eq!(after(read("b")), (works("b"), 1, 2));
        let failed = Note::Failed("busy".to_owned());
        assert_eq!(after(failed), (works("b"), 1, 2));
        let first = follow.works(1).unwrap().clone();
        assert!(!follow.has_ended(&first));
        notes.note(&Note::Answered {
            task: 7,
            at: Duration::ZERO,
        });
        notes.note(&read("b"));
        follow.catch_up();
        assert!(follow.has_ended(&first) && follow.works(1).is_some());
    }

    #[test]
    fn who_waits_has_asked_and_is_not_inside() {
        let directory = TempDir::new().unwrap();
        let mut follow = Follow::new(directory.path());
        follow.add(1);
        let notes = Notes::new(directory.path(), 1).unwrap();
        let mut after = |note: Note| {
            notes.note(&note);
            follow.catch_up();
            (follow.is_waiting(1), follow.is_inside(1))
        };
        let at = Duration::from_secs;
        assert_eq!(after(Note::Failed("busy".to_owned())), (false, false));
        assert_eq!(after(Note::Asks { task: 0 }), (true, false));
        assert_eq!(after(Note::Asks { task: 1 }), (true, false));
        let entered = Note::In {
            section: 0,
            key: "a".to_owned(),
            mode: Mode::Exclusive,
            task: 0,
            token: 1,
            asked: at(1),
            at: at(2),
            is_blind: false,
        };
        assert_eq!(after(entered), (false, true));
        let left = Note::Out {
            section: 0,
            at: at(3),
            end: End::Finished,
        };
        assert_eq!(after(left), (true, false));
        let shares = |task| Note::Shares {
            task,
            key: "a".to_owned(),
            at: at(1),
            waits_for_others: false,
        };
        assert_eq!(after(shares(1)), (true, false));
        let answered = Note::Answered { task: 1, at: at(4) };
        assert_eq!(after(answered), (false, false));
        let late = Note::Late {
            key: "a".to_owned(),
            mode: Mode::Exclusive,
            task: 1,
            token: 2,
            asked: at(2),
            at: at(4),
        };
        assert_eq!(after(late), (false, false));
        assert_eq!(after(shares(2)), (false, false));
        follow.died(1);
        let unseen: Vec<_> = follow.unseen.iter().map(|it| it.asked).collect();
        assert_eq!((unseen, follow.unseen[0].left), (vec![at(1); 2], at(4)));
        let seen: Vec<_> = follow.late.iter().map(|it| (it.token, it.end)).collect();
        assert_eq!(seen, [(2, End::Lost)]);
    }
}
