//! The documents of the page.

use dlock_admin::{HolderInfo, LockInfo, ProcessInfo, WaiterInfo};
use dlock_runtime::{FencingToken, store::LockMode};
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

/// A lock with all that is known about it.
#[derive(Debug, Serialize)]
pub(super) struct LockView {
    key: String,
    mode: Option<&'static str>,
    /// Fences are texts, because a double cannot represent them.
    last_fence: String,
    held_at: usize,
    servers: usize,
    holders: Vec<HolderView>,
    holder_count: usize,
    waiters: Vec<WaiterView>,
    waiter_count: usize,
}

#[derive(Debug, Serialize)]
struct HolderView {
    handle: Option<String>,
    label: Option<String>,
    function: Option<String>,
    fence: String,
    token: Option<String>,
    since: Option<String>,
    held_ms: Option<u64>,
    ttl_ms: Option<u64>,
    process: Option<ProcessView>,
}

#[derive(Debug, Serialize)]
struct WaiterView {
    handle: String,
    label: Option<String>,
    mode: &'static str,
    permits: Option<u32>,
    waiting_ms: u64,
    is_alive: bool,
    process: Option<ProcessView>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ProcessView {
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
    process: ProcessView,
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
            mode: lock.mode().map(|mode| mode_of(mode).0),
            holder: holder.map(|holder| {
                let named = || Some(UNNAMED).filter(|_| holder.owner().is_some());
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

/// The holder of a lock that the store granted a moment ago.
const UNNAMED: &str = "(not known yet)";

pub(super) const THIRD_PARTY: &str = "(third-party client)";

impl LockView {
    /// Returns the view of a lock that was read at `now_ms` by the clock of the store.
    pub(super) fn of(lock: &LockInfo, now_ms: u64) -> Self {
        Self {
            key: lock.key.clone(),
            mode: lock.mode.map(|mode| mode_of(mode).0),
            last_fence: lock.last_fence.to_string(),
            held_at: lock.held_at,
            servers: lock.servers,
            holders: lock
                .holders()
                .map(|it| HolderView::of(it, now_ms))
                .collect(),
            holder_count: lock.holder_count,
            waiters: lock.waiters.iter().map(WaiterView::of).collect(),
            waiter_count: lock.waiter_count,
        }
    }
}

impl HolderView {
    fn of(holder: &HolderInfo, now_ms: u64) -> Self {
        let since_ms = holder.since.map(moment::of);
        Self {
            handle: holder.owner.map(|owner| owner.handle().to_string()),
            label: label_of(holder).map(str::to_owned),
            function: holder.function.clone(),
            fence: holder.fence.to_string(),
            token: FencingToken::from_fence(holder.fence).map(|token| token.to_string()),
            since: since_ms.map(moment::text),
            held_ms: since_ms.map(|since| now_ms.saturating_sub(since)),
            ttl_ms: holder.ttl.map(moment::milliseconds),
            process: holder.process.as_ref().map(ProcessView::of),
        }
    }
}

impl WaiterView {
    fn of(waiter: &WaiterInfo) -> Self {
        let (mode, permits) = mode_of(waiter.mode);
        Self {
            handle: waiter.owner.handle().to_string(),
            label: waiter
                .label
                .clone()
                .or_else(|| Some(waiter.process.as_ref()?.label.clone())),
            mode,
            permits,
            waiting_ms: moment::milliseconds(waiter.waiting),
            is_alive: waiter.is_alive,
            process: waiter.process.as_ref().map(ProcessView::of),
        }
    }
}

impl ProcessView {
    fn of(process: &ProcessInfo) -> Self {
        Self {
            application: process.application.clone(),
            host: Some(process.host.clone()),
            pid: Some(process.pid),
            started: Some(moment::text(moment::of(process.started))),
            version: Some(process.version.clone()),
        }
    }
}

impl ProcessRow {
    pub(super) fn of(process: &ProcessInfo, holds: usize, waits: usize) -> Self {
        Self {
            client: Some(process.client.handle().to_string()),
            label: Some(process.label.clone()),
            process: ProcessView::of(process),
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
            process: ProcessView {
                application: parts.and_then(|parts| parts.application.clone()),
                host: parts.map(|parts| parts.host.clone()),
                pid: parts.map(|parts| parts.pid),
                ..ProcessView::default()
            },
            holds,
            waits,
        }
    }
}

/// Returns the label of a holder, or else that of its process.
pub(super) fn label_of(holder: &HolderInfo) -> Option<&str> {
    let published = holder.process.as_ref().map(|process| &*process.label);
    holder.label.as_deref().or(published)
}

/// Returns the name of a mode, and its number of permits. The command `dlock` uses it.
#[must_use]
pub fn mode_of(mode: LockMode) -> (&'static str, Option<u32>) {
    match mode {
        LockMode::Shared => ("shared", None),
        LockMode::Permits(most) => ("permits", Some(most)),
        // A mode that a later version adds counts as exclusive, as in the stores.
        _ => ("exclusive", None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use dlock_runtime::{
        random::SystemRandom,
        store::{ClientId, OwnerId},
    };

    use super::*;

    #[test]
    fn holders_and_waiters_have_the_labels_of_their_processes() {
        let client = ClientId::new(&SystemRandom);
        let process = ProcessInfo::new(client, "cron@host/1", UNIX_EPOCH, "0");
        let mut lock = LockInfo::new("k");
        let owner = |number| OwnerId::new(client, number);
        // The store granted it a moment ago, and the process has not written its label yet.
        let mut holder = HolderInfo::new(Some(owner(1)), 7, SystemTime::now());
        holder.process = Some(process.clone());
        lock.add_holder(holder);
        let mut waiter = WaiterInfo::new(owner(2), LockMode::Exclusive);
        waiter.process = Some(process);
        lock.add_waiter(waiter);
        let told = serde_json::to_value(LockView::of(&lock, 0)).unwrap();
        assert_eq!(told["holders"][0]["label"], "cron@host/1");
        assert_eq!(told["waiters"][0]["label"], "cron@host/1");
    }
}
