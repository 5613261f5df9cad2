//! A lock as it is printed: the stable form of `--json`, and text for people.

use std::time::{Duration, SystemTime};

use dlock::FencingToken;
use dlock_admin::{HolderInfo, LockInfo, ProcessInfo, WaiterInfo};
use dlock_admin_web::mode_of;
use jiff::Timestamp;
use serde::Serialize;

use crate::text::printable;

/// A lock with a holder or waiters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LockView {
    pub(crate) key: String,
    /// `exclusive` or `shared`; `None` without a holder.
    pub(crate) mode: Option<String>,
    pub(crate) holder: Option<HolderView>,
    /// All holders, the first of which is `holder`.
    pub(crate) holders: Vec<HolderView>,
    /// The number of all holders, including those that are not listed.
    pub(crate) holder_count: usize,
    pub(crate) waiters: Vec<WaiterView>,
    /// The number of all waiters, including those that are not listed.
    pub(crate) waiter_count: usize,
    pub(crate) last_fence: u64,
    pub(crate) held_at: usize,
    pub(crate) servers: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HolderView {
    /// `None` for a third-party client.
    pub(crate) handle: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) process: Option<ProcessView>,
    pub(crate) fence: u64,
    /// A string, because a double cannot represent it.
    pub(crate) token: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) held_ms: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WaiterView {
    pub(crate) handle: String,
    pub(crate) label: Option<String>,
    /// `exclusive`, `shared` or `permits`.
    pub(crate) mode: String,
    /// The number of permits, of which it wants one.
    pub(crate) permits: Option<u32>,
    pub(crate) process: Option<ProcessView>,
    pub(crate) waiting_ms: u64,
    pub(crate) is_alive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessView {
    pub(crate) client: String,
    pub(crate) label: String,
    pub(crate) application: Option<String>,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) started: String,
    pub(crate) version: String,
}

impl LockView {
    /// Returns the view of a lock that was read at `now`.
    pub(crate) fn of(lock: &LockInfo, now: SystemTime) -> Self {
        Self {
            key: lock.key.clone(),
            mode: lock.mode.map(|mode| mode_of(mode).0.to_owned()),
            holder: lock.holder.as_ref().map(|it| HolderView::of(it, now)),
            holders: lock.holders().map(|it| HolderView::of(it, now)).collect(),
            holder_count: lock.holder_count,
            waiters: lock.waiters.iter().map(WaiterView::of).collect(),
            waiter_count: lock.waiter_count,
            last_fence: lock.last_fence,
            held_at: lock.held_at,
            servers: lock.servers,
        }
    }

    /// Returns the view of a lock without a holder and without waiters.
    pub(crate) fn free(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            mode: None,
            holder: None,
            holders: Vec::new(),
            holder_count: 0,
            waiters: Vec::new(),
            waiter_count: 0,
            last_fence: 0,
            held_at: 0,
            servers: 0,
        }
    }

    /// Returns `true` if the lock is held in a shared mode, possibly by a single holder.
    pub(crate) fn is_shared(&self) -> bool {
        self.mode.as_deref() == Some("shared")
    }
}

/// Describes what a waiter wants, unless it is an exclusive lock.
pub(crate) fn wish(mode: &str, permits: Option<u32>) -> Option<String> {
    match (mode, permits) {
        ("exclusive", _) => None,
        (_, Some(1)) => Some("1 permit".to_owned()),
        (_, Some(most)) => Some(format!("one of {most} permits")),
        _ => Some(mode.to_owned()),
    }
}

impl HolderView {
    fn of(holder: &HolderInfo, now: SystemTime) -> Self {
        let held = holder.since.map(|since| {
            // The server's clock may be ahead of the local one.
            now.duration_since(since).unwrap_or_default()
        });
        let token = FencingToken::from_fence(holder.fence);
        Self {
            handle: holder.owner.map(|owner| owner.handle().to_string()),
            label: holder.label.clone(),
            function: holder.function.clone(),
            process: holder.process.as_ref().map(ProcessView::of),
            fence: holder.fence,
            token: token.map(|token| token.to_string()),
            since: holder.since.map(moment),
            held_ms: held.map(milliseconds),
            ttl_ms: holder.ttl.map(milliseconds),
        }
    }

    /// Returns `true` if a third-party client holds the lock.
    pub(crate) fn is_foreign(&self) -> bool {
        self.handle.is_none()
    }

    /// Returns the label of the lease, or else that of the process.
    pub(crate) fn label(&self) -> Option<&String> {
        let published = self.process.as_ref().map(|process| &process.label);
        self.label.as_ref().or(published)
    }

    /// Returns the name of the holder, in printable characters.
    pub(crate) fn name(&self) -> String {
        match self.label() {
            Some(name) => printable(name).into_owned(),
            None if self.is_foreign() => "(third-party client)".to_owned(),
            None => "(not known yet)".to_owned(),
        }
    }

    pub(crate) fn held(&self) -> Option<Duration> {
        self.held_ms.map(Duration::from_millis)
    }

    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.ttl_ms.map(Duration::from_millis)
    }
}

impl WaiterView {
    fn of(waiter: &WaiterInfo) -> Self {
        let (mode, permits) = mode_of(waiter.mode);
        Self {
            handle: waiter.owner.handle().to_string(),
            label: waiter.label.clone(),
            mode: mode.to_owned(),
            permits,
            process: waiter.process.as_ref().map(ProcessView::of),
            waiting_ms: milliseconds(waiter.waiting),
            is_alive: waiter.is_alive,
        }
    }

    /// Returns the name of the waiter, in printable characters.
    pub(crate) fn name(&self) -> String {
        printable(self.label.as_ref().unwrap_or(&self.handle)).into_owned()
    }

    /// Describes what it wants, unless it is an exclusive lock.
    pub(crate) fn wish(&self) -> Option<String> {
        wish(&self.mode, self.permits)
    }

    pub(crate) fn waiting(&self) -> Duration {
        Duration::from_millis(self.waiting_ms)
    }
}

impl ProcessView {
    fn of(process: &ProcessInfo) -> Self {
        Self {
            client: process.client.handle().to_string(),
            label: process.label.clone(),
            application: process.application.clone(),
            host: process.host.clone(),
            pid: process.pid,
            started: moment(process.started),
            version: process.version.clone(),
        }
    }
}

/// Formats a time as in RFC 3339, with milliseconds.
pub(crate) fn moment(time: SystemTime) -> String {
    // Only a forged time is out of range.
    let timestamp = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use dlock::LockMode;

    use super::*;

    #[test]
    fn a_wish_is_named_unless_it_is_exclusive() {
        for (mode, told) in [
            (LockMode::Exclusive, None),
            (LockMode::Shared, Some("shared")),
            (LockMode::Permits(1), Some("1 permit")),
            (LockMode::Permits(3), Some("one of 3 permits")),
        ] {
            let (name, permits) = mode_of(mode);
            assert_eq!(wish(name, permits).as_deref(), told);
        }
    }
}
