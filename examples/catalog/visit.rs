//! The part that a service would copy: readers that share a lock, and a writer that holds it alone.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use dlock::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

/// The number of articles of a catalog.
const ARTICLES: u32 = 6;
/// The time for one article.
const STEP: Duration = Duration::from_millis(30);
const PAUSE_OF_A_READER: Duration = Duration::from_millis(40);
const PAUSE_OF_THE_WRITER: Duration = Duration::from_millis(350);

#[derive(Debug, thiserror::Error)]
pub(crate) enum VisitError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot use the catalog: {0}")]
    Catalog(#[from] io::Error),
}

/// A reader or the writer of a catalog.
pub(crate) struct Visitor {
    pub(crate) number: usize,
    pub(crate) locks: LockManager,
    pub(crate) catalog: Catalog,
    pub(crate) journal: Journal,
}

// Any number of calls of `read` run at the same time, in all processes. None of them runs beside `write`.
#[distributed_lock(
    key = "catalog:<shop>",
    mode = shared,
    ttl = "10s",
    wait = "1m",
    lease = lease,
    manager = visitor.locks
)]
async fn read(shop: u32, visitor: &Visitor) -> Result<(), VisitError> {
    visitor.read(lease.fencing_token().to_i64()).await
}

// The same key without a mode: the writer holds the lock alone. It waits in the same queue as the readers, so a
// reader that comes later waits for it.
#[distributed_lock(
    key = "catalog:<shop>",
    ttl = "10s",
    wait = "1m",
    lease = lease,
    manager = visitor.locks
)]
async fn write(shop: u32, visitor: &Visitor, edition: u64) -> Result<(), VisitError> {
    visitor.write(edition, lease.fencing_token().to_i64()).await
}

impl Visitor {
    /// Reads again and again until the end of the run.
    pub(crate) async fn keep_reading(&self, with_lock: bool) -> Result<(), VisitError> {
        // Not all at the same moment.
        sleep(PAUSE_OF_A_READER * u32::try_from(self.number).unwrap_or(0)).await;
        while !self.journal.is_over() {
            self.note(Step::Waits)?;
            if with_lock {
                read(7, self).await?;
            } else {
                self.read(0).await?;
            }
            sleep(PAUSE_OF_A_READER).await;
        }
        Ok(())
    }

    /// Writes an edition after the other until the end of the run.
    pub(crate) async fn keep_writing(&self, with_lock: bool) -> Result<(), VisitError> {
        for edition in 1.. {
            sleep(PAUSE_OF_THE_WRITER).await;
            if self.journal.is_over() {
                break;
            }
            self.note(Step::Waits)?;
            if with_lock {
                write(7, self, edition).await?;
            } else {
                self.write(edition, 0).await?;
            }
        }
        Ok(())
    }

    /// Reads article by article. All of them must be of one edition.
    async fn read(&self, token: i64) -> Result<(), VisitError> {
        self.note(Step::Begins(token))?;
        let first = self.catalog.edition_of(0)?;
        let mut is_mixed = false;
        for article in 1..ARTICLES {
            sleep(STEP).await;
            is_mixed |= self.catalog.edition_of(article)? != first;
        }
        self.note(Step::Ends { is_mixed })?;
        Ok(())
    }

    /// Writes article by article. Until the last one, the catalog is a mixture of two editions.
    async fn write(&self, edition: u64, token: i64) -> Result<(), VisitError> {
        self.note(Step::Begins(token))?;
        for article in 0..ARTICLES {
            self.catalog.set_edition(article, edition)?;
            sleep(STEP).await;
        }
        self.note(Step::Ends { is_mixed: false })?;
        Ok(())
    }

    fn note(&self, step: Step) -> io::Result<()> {
        self.journal.note(self.number, step)
    }
}

/// A directory with a file for each article, which contains the edition.
pub(crate) struct Catalog(pub(crate) PathBuf);

impl Catalog {
    /// Writes the edition 0 of all articles.
    pub(crate) fn open(&self) -> io::Result<()> {
        (0..ARTICLES).try_for_each(|article| self.set_edition(article, 0))
    }

    fn edition_of(&self, article: u32) -> io::Result<String> {
        fs::read_to_string(self.0.join(format!("article-{article}")))
    }

    fn set_edition(&self, article: u32, edition: u64) -> io::Result<()> {
        fs::write(
            self.0.join(format!("article-{article}")),
            edition.to_string(),
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    Waits,
    /// With the fencing token.
    Begins(i64),
    Ends {
        is_mixed: bool,
    },
}

/// A line of the journal.
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) visitor: usize,
    pub(crate) step: Step,
}

/// A file to which all visitors append a line for each step.
///
/// A visitor appends while it holds the lock. The order of the lines is therefore the order of the critical
/// sections, whatever the clock says.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) file: PathBuf,
    pub(crate) begin: SystemTime,
    pub(crate) length: Duration,
}

impl Journal {
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed().unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.elapsed() >= self.length
    }

    fn note(&self, visitor: usize, step: Step) -> io::Result<()> {
        let at = self.elapsed().as_millis();
        let step = match step {
            Step::Waits => "waits 0".to_owned(),
            Step::Begins(token) => format!("begins {token}"),
            Step::Ends { is_mixed } => format!("ends {}", u8::from(is_mixed)),
        };
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.file)?;
        // One write for one line, so that lines of several processes do not mix.
        file.write_all(format!("{at} {visitor} {step}\n").as_bytes())
    }

    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let text = match fs::read_to_string(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let parse = |line: &str| {
            let [at, visitor, step, value] = line.split(' ').collect::<Vec<_>>()[..] else {
                return None;
            };
            let value: i64 = value.parse().ok()?;
            Some(Entry {
                at: Duration::from_millis(at.parse().ok()?),
                visitor: visitor.parse().ok()?,
                step: match step {
                    "waits" => Step::Waits,
                    "begins" => Step::Begins(value),
                    "ends" => Step::Ends {
                        is_mixed: value > 0,
                    },
                    _ => return None,
                },
            })
        };
        let entries: Option<_> = text.lines().map(parse).collect();
        entries.ok_or_else(|| io::Error::other("the journal contains an invalid line"))
    }
}
