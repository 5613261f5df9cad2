//! The documents of the page.

use dlock_admin::{
    ProcessInfo,
    view::{NOT_KNOWN, THIRD_PARTY, mode_name},
};
use serde::Serialize;

use super::{moment, picture, query::Chosen, server::Server};

/// The document of the list of locks.
#[derive(Debug, Serialize)]
pub(super) struct Listing<'a> {
    pub(super) server: &'a Server,
    pub(super) picture: PictureView<'a>,
    pub(super) totals: TotalsView,
    pub(super) cannot: Vec<String>,
    pub(super) can_unlock: bool,
    pub(super) list: ListView,
    pub(super) locks: Vec<RowView<'a>>,
}

/// How old the locks are, and why.
#[derive(Debug, Serialize)]
pub(super) struct PictureView<'a> {
    pub(super) state: &'static str,
    pub(super) progress: Option<f64>,
    pub(super) taken: Option<String>,
    pub(super) age_ms: Option<u64>,
    pub(super) took_ms: Option<u64>,
    pub(super) interval_ms: u64,
    pub(super) reason: Option<&'a str>,
    pub(super) since: Option<String>,
    /// The time since then, on a clock that no one sets.
    pub(super) away_ms: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct TotalsView {
    pub(super) locks: Option<usize>,
    pub(super) held: Option<usize>,
    pub(super) waiters: Option<usize>,
    pub(super) longest_wait_ms: Option<u64>,
    pub(super) processes: Option<usize>,
    pub(super) grants_per_s: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct ListView {
    matching: usize,
    page: usize,
    pages: usize,
    per: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct RowView<'a> {
    key: &'a str,
    mode: Option<&'static str>,
    holder: Option<&'a str>,
    function: Option<&'a str>,
    holders: u32,
    held_ms: Option<u64>,
    since: Option<String>,
    ttl_ms: Option<u64>,
    waiters: u32,
    longest_wait_ms: Option<u64>,
    held_at: u16,
    servers: u16,
}

#[derive(Debug, Default, Serialize)]
struct ProcessParts {
    application: Option<String>,
    host: Option<String>,
    pid: Option<u32>,
    started: Option<String>,
    version: Option<String>,
}

/// A process with the numbers of locks that it holds and awaits.
#[derive(Debug, Serialize)]
pub(super) struct ProcessRow {
    /// `None` for all processes with the same label, if they have no records.
    client: Option<String>,
    label: Option<String>,
    #[serde(flatten)]
    process: ProcessParts,
    holds: usize,
    waits: usize,
}

impl ListView {
    pub(super) fn of(chosen: &Chosen<'_>) -> Self {
        Self {
            matching: chosen.matching,
            page: chosen.page,
            pages: chosen.pages,
            per: chosen.per,
        }
    }
}

impl<'a> RowView<'a> {
    pub(super) fn of(lock: picture::ShownLock<'a>) -> Self {
        let holder = lock.holder();
        Self {
            key: lock.key(),
            mode: lock.mode().map(|mode| mode_name(mode).0),
            holder: holder.map(|holder| {
                let named = || Some(NOT_KNOWN).filter(|_| holder.owner().is_some());
                holder.label().or_else(named).unwrap_or(THIRD_PARTY)
            }),
            function: holder.and_then(picture::ShownHolder::function),
            holders: lock.holder_count(),
            held_ms: holder.and_then(picture::ShownHolder::held_ms),
            since: holder
                .and_then(picture::ShownHolder::since_ms)
                .map(moment::text),
            ttl_ms: holder.and_then(picture::ShownHolder::ttl_ms),
            waiters: lock.waiter_count(),
            longest_wait_ms: lock.longest_wait_ms(),
            held_at: lock.held_at(),
            servers: lock.servers(),
        }
    }
}

impl ProcessParts {
    fn of(process: &ProcessInfo) -> Self {
        Self {
            application: process.application.clone(),
            host: Some(process.host.clone()),
            pid: Some(process.pid),
            started: Some(moment::text(moment::since_1970(process.started))),
            version: Some(process.version.clone()),
        }
    }
}

impl ProcessRow {
    pub(super) fn of(process: &ProcessInfo, holds: usize, waits: usize) -> Self {
        Self {
            client: Some(process.client.handle().to_string()),
            label: Some(process.label.clone()),
            process: ProcessParts::of(process),
            holds,
            waits,
        }
    }

    /// Returns the row of processes without a record. `parts` has the parts of the label, if it has the usual form.
    pub(super) fn named(
        label: Option<&str>,
        parts: Option<&ProcessInfo>,
        holds: usize,
        waits: usize,
    ) -> Self {
        Self {
            client: None,
            label: label.map(str::to_owned),
            process: ProcessParts {
                application: parts.and_then(|parts| parts.application.clone()),
                host: parts.map(|parts| parts.host.clone()),
                pid: parts.map(|parts| parts.pid),
                ..ProcessParts::default()
            },
            holds,
            waits,
        }
    }
}
