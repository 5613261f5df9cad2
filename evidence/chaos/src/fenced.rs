//! The resource behind the locks: a file for each key, to which all processes write, and which refuses every token that
//! is smaller than the greatest it has seen.
//!
//! A line is one write, and holds all that the next one has to know: a writer that is killed leaves
//! either all of it or nothing. The order of the lines is the order of the resource.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use dlock_history::Write;

/// Two numbers of 20 digits, two of 10, one of 1, and what separates them.
const LINE: u64 = 20 + 20 + 10 + 10 + 1 + 5;

pub(crate) struct Fenced {
    // Locks of files are between processes; between threads there is the mutex.
    files: BTreeMap<String, Mutex<File>>,
    refuses: bool,
}

fn path(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!("log-{key}"))
}

impl Fenced {
    /// One that only pretends to look at tokens if it does not refuse.
    pub(crate) fn open(directory: &Path, keys: &[&str], refuses: bool) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for key in keys {
            let mut options = File::options();
            let options = options.create(true).append(true).read(true);
            let file = options.open(path(directory, key))?;
            files.insert((*key).to_owned(), Mutex::new(file));
        }
        Ok(Self { files, refuses })
    }

    /// Writes, and says whether it was taken.
    pub(crate) fn write(&self, key: &str, [process, task]: [u32; 2], token: i64) -> bool {
        let file = self.files[key]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.append(&file, [process, task], token)
            .expect("the log can be written")
    }

    fn append(&self, file: &File, [process, task]: [u32; 2], token: i64) -> io::Result<bool> {
        file.lock()?;
        let last = last(file)?;
        let accepted = !self.refuses || last <= token;
        let last = if accepted { token } else { last };
        let mark = u8::from(accepted);
        let line = format!("{last:020} {token:020} {process:010} {task:010} {mark}\n");
        let mut writer: &File = file;
        writer.write_all(line.as_bytes())?;
        file.unlock()?;
        Ok(accepted)
    }
}

/// The last token that was taken, or zero.
fn last(file: &File) -> io::Result<i64> {
    let length = file.metadata()?.len();
    let Some(start) = length.checked_sub(LINE) else {
        return Ok(0);
    };
    let mut text = [0; 20];
    file.read_exact_at(&mut text, start)?;
    Ok(number(std::str::from_utf8(&text).expect("they are digits")))
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("they are digits")
}

/// All that was written for these keys, in its order.
pub(crate) fn read(directory: &Path, keys: &[&str]) -> io::Result<Vec<Write>> {
    let mut writes = Vec::new();
    for key in keys {
        for line in fs::read_to_string(path(directory, key))?.lines() {
            let words: Vec<_> = line.split(' ').collect();
            writes.push(Write {
                key: (*key).to_owned(),
                process: number(words[2]),
                task: number(words[3]),
                token: number(words[1]),
                accepted: words[4] == "1",
            });
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use dlock_history::{History, Promise, Violation};
    use tempfile::TempDir;

    use super::*;

    fn written(refuses: bool) -> Vec<Violation> {
        let directory = TempDir::new().unwrap();
        let open = || Fenced::open(directory.path(), &["a", "b"], refuses).unwrap();
        // Two processes.
        let (one, two) = (open(), open());
        assert!(one.write("a", [1, 0], 5) && two.write("a", [2, 0], 7));
        assert!(one.write("b", [1, 0], 5));
        assert_eq!(one.write("a", [1, 0], 5), !refuses);
        assert!(two.write("a", [2, 0], i64::MAX));
        let history = History {
            writes: read(directory.path(), &["a", "b"]).unwrap(),
            ..History::default()
        };
        assert_eq!(history.writes.len(), 5);
        assert_eq!(history.refused(), usize::from(refuses));
        history.judge(Promise::Fenced)
    }

    #[test]
    fn who_is_late_is_refused() {
        assert_eq!(written(true), []);
    }

    #[test]
    fn a_resource_that_takes_all_is_found_out() {
        let found = written(false);
        assert!(matches!(found[..], [Violation::WentBack(..)]), "{found:?}");
    }
}
