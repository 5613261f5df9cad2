//! Records settlements, in one file per order. Only the lock prevents two processes from settling the same order.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::io::AsyncWriteExt;

use crate::{error::Error, input::Order};

/// A directory of records.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    directory: PathBuf,
}

/// One line of an order's record. A record with two lines is the fault that the lock prevents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// A database would refuse a token that is smaller than the last one of the record.
    pub(crate) token: i64,
    pub(crate) worker: usize,
    pub(crate) merchant: String,
    pub(crate) amount_cents: u64,
    /// Since 1970. All workers run on one machine and share its clock.
    pub(crate) at: Duration,
}

impl Ledger {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    pub(crate) async fn is_settled(&self, order: &Order) -> io::Result<bool> {
        match tokio::fs::read_to_string(self.record(order)).await {
            Ok(record) => Ok(!record.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn settle(&self, order: &Order, worker: usize, token: i64) -> io::Result<()> {
        let line = format!(
            "{token} {worker} {} {} {}\n",
            order.merchant,
            order.amount_cents,
            now().as_micros(),
        );
        let mut record = tokio::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.record(order))
            .await?;
        // One write for one line: after a kill, the settlement is complete or missing.
        record.write_all(line.as_bytes()).await?;
        record.flush().await
    }

    /// Returns all records by order.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, Vec<Settlement>>, Error> {
        let mut records = BTreeMap::new();
        let files = fs::read_dir(&self.directory).map_err(Error::file(&self.directory))?;
        for file in files {
            let path = file.map_err(Error::file(&self.directory))?.path();
            let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
            let settlements: Option<_> = text.lines().map(parse).collect();
            let settlements = settlements.ok_or_else(|| Error::Malformed {
                path: path.clone(),
                line: 1,
                reason: "a line is not a settlement",
            })?;
            let order = path.file_name().unwrap_or_default();
            records.insert(order.to_string_lossy().into_owned(), settlements);
        }
        Ok(records)
    }

    fn record(&self, order: &Order) -> PathBuf {
        self.directory.join(&order.id)
    }
}

fn parse(line: &str) -> Option<Settlement> {
    let mut words = line.split(' ');
    Some(Settlement {
        token: words.next()?.parse().ok()?,
        worker: words.next()?.parse().ok()?,
        merchant: words.next()?.to_owned(),
        amount_cents: words.next()?.parse().ok()?,
        at: Duration::from_micros(words.next()?.parse().ok()?),
    })
}

/// Returns the time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}
