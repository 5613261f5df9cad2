//! Locks as documents: what `dlock ls`, `inspect`, `watch` and `unlock` write with `--json`, and what the page reads.
//!
//! Times are texts in RFC 3339 and durations are in milliseconds. Tokens are texts, because a double cannot represent them.
//!
//! ```
//! use std::time::SystemTime;
//! use dlock_admin::{LockInfo, view::LockView};
//!
//! let lock = LockView::of(&LockInfo::new("order:42"), SystemTime::now());
//! let document = serde_json::to_value(&lock)?;
//! assert_eq!(document["key"], "order:42");
//! assert!(document["holder"].is_null());
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_runtime::{FencingToken, store::LockMode};
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::model::{HolderInfo, LockInfo, ProcessInfo, WaiterInfo};

/// The name of a holder whose label is not known yet: the store granted it the lock a moment ago.
pub const NOT_KNOWN: &str = "(not known yet)";

/// The name of a holder that is not a program with dlock.
pub const THIRD_PARTY: &str = "(third-party client)";

/// A lock with its holders and waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockView {
    /// The key of the lock.
    pub key: String,
    /// `exclusive` or `shared`; `None` without a holder.
    pub mode: Option<&'static str>,
    /// All holders that are listed. The document names the first one also as `holder`.
    pub holders: Vec<HolderView>,
    /// The number of all holders, including those that are not listed.
    pub holder_count: usize,
    /// The waiters that are listed, the next one first.
    pub waiters: Vec<WaiterView>,
    /// The number of all waiters, including those that are not listed.
    pub waiter_count: usize,
    /// The last fencing token that the store made for this key, or in Redis for its slot.
    pub last_token: Option<String>,
    /// The number of servers on which the holder has the lock.
    pub held_at: usize,
    /// The number of servers that answered.
    pub servers: usize,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HolderView {
    /// The handle of its claim; `None` for a third-party client.
    pub handle: Option<String>,
    /// The label of the lease, or else that of the process.
    pub label: Option<String>,
    /// The annotated function.
    pub function: Option<String>,
    /// The process, if it has published a record of itself.
    pub process: Option<ProcessView>,
    /// The fencing token that the lease began with; hand-overs within the process make it slightly greater.
    pub token: Option<String>,
    /// The time when the process acquired the lease.
    pub since: Option<String>,
    /// The time for which it has held the lock.
    pub held_ms: Option<u64>,
    /// The time until the lease ends if it is not renewed; `None` if it never ends.
    pub ttl_ms: Option<u64>,
}

/// A waiter for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WaiterView {
    /// The handle of its claim.
    pub handle: String,
    /// The label of the process.
    pub label: Option<String>,
    /// `exclusive`, `shared` or `permits`.
    pub mode: &'static str,
    /// The number of permits, of which it wants one.
    pub permits: Option<u32>,
    /// The process, if it has published a record of itself.
    pub process: Option<ProcessView>,
    /// The time since it entered the queue.
    pub waiting_ms: u64,
    /// `false` if it has sent no request for so long that it is skipped.
    pub is_alive: bool,
}

/// A process that acquires locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessView {
    /// The handle of its manager.
    pub client: String,
    /// The label that it writes into its locks.
    pub label: String,
    /// The name of the application.
    pub application: Option<String>,
    /// The name of its host.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The time when its manager was created.
    pub started: String,
    /// The version of dlock that it uses.
    pub version: String,
}

impl LockView {
    /// Returns the document of a lock that was read at `now`, by the clock of the store.
    #[must_use]
    pub fn of(lock: &LockInfo, now: SystemTime) -> Self {
        Self {
            key: lock.key.clone(),
            mode: lock.mode.map(|mode| mode_name(mode).0),
            holders: lock.holders().map(|it| HolderView::of(it, now)).collect(),
            holder_count: lock.holder_count,
            waiters: lock.waiters.iter().map(WaiterView::of).collect(),
            waiter_count: lock.waiter_count,
            last_token: token(lock.last_fence),
            held_at: lock.held_at,
            servers: lock.servers,
        }
    }

    /// Returns the first holder.
    #[must_use]
    pub fn holder(&self) -> Option<&HolderView> {
        self.holders.first()
    }

    /// Returns `true` if the lock is held in a shared mode, possibly by a single holder.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.mode == Some("shared")
    }
}

impl Serialize for LockView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // All fields by name: one that is added is missed here by the compiler.
        let Self {
            key,
            mode,
            holders,
            holder_count,
            waiters,
            waiter_count,
            last_token,
            held_at,
            servers,
        } = self;
        let mut document = serializer.serialize_struct("LockView", 10)?;
        document.serialize_field("key", key)?;
        document.serialize_field("mode", mode)?;
        document.serialize_field("holder", &self.holder())?;
        document.serialize_field("holders", holders)?;
        document.serialize_field("holder_count", holder_count)?;
        document.serialize_field("waiters", waiters)?;
        document.serialize_field("waiter_count", waiter_count)?;
        document.serialize_field("last_token", last_token)?;
        document.serialize_field("held_at", held_at)?;
        document.serialize_field("servers", servers)?;
        document.end()
    }
}

impl HolderView {
    /// Returns the document of a holder that was read at `now`, by the clock of the store.
    #[must_use]
    pub fn of(holder: &HolderInfo, now: SystemTime) -> Self {
        // That clock may have been set back since.
        let held = |since| now.duration_since(since).unwrap_or_default();
        Self {
            handle: holder.owner.map(|owner| owner.handle().to_string()),
            label: holder.known_label().map(str::to_owned),
            function: holder.function.clone(),
            process: holder.process.as_ref().map(ProcessView::of),
            token: token(holder.fence),
            since: holder.since.map(moment),
            held_ms: holder.since.map(held).map(milliseconds),
            ttl_ms: holder.ttl.map(milliseconds),
        }
    }

    /// Returns `true` if a third-party client holds the lock.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.handle.is_none()
    }

    /// Returns the label, or what is there instead of one.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.label {
            Some(label) => label,
            None if self.is_foreign() => THIRD_PARTY,
            None => NOT_KNOWN,
        }
    }
}

impl WaiterView {
    fn of(waiter: &WaiterInfo) -> Self {
        let (mode, permits) = mode_name(waiter.mode);
        Self {
            handle: waiter.owner.handle().to_string(),
            label: waiter.known_label().map(str::to_owned),
            mode,
            permits,
            process: waiter.process.as_ref().map(ProcessView::of),
            waiting_ms: milliseconds(waiter.waiting),
            is_alive: waiter.is_alive,
        }
    }

    /// Returns the label, or else the handle.
    #[must_use]
    pub fn name(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.handle)
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

/// Returns the name of a mode, and its number of permits.
///
/// ```
/// use dlock::LockMode;
/// use dlock_admin::view::mode_name;
///
/// assert_eq!(mode_name(LockMode::Permits(3)), ("permits", Some(3)));
/// ```
#[must_use]
pub fn mode_name(mode: LockMode) -> (&'static str, Option<u32>) {
    match mode {
        LockMode::Shared => ("shared", None),
        LockMode::Permits(most) => ("permits", Some(most)),
        // A mode that a later version adds counts as exclusive, as in the stores.
        _ => ("exclusive", None),
    }
}

/// Returns the fencing token of a fence, as a text.
#[must_use]
pub fn token(fence: u64) -> Option<String> {
    FencingToken::from_fence(fence).map(|token| token.to_string())
}

/// Returns a time in the form of RFC 3339, with milliseconds. A time out of range, which only a forged record has, is the
/// nearest one.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use dlock_admin::view::moment;
///
/// assert_eq!(moment(UNIX_EPOCH + Duration::from_millis(7)), "1970-01-01T00:00:00.007Z");
/// ```
#[must_use]
pub fn moment(time: SystemTime) -> String {
    /// The end of the year 9999, which is the last one with four digits.
    const LAST: Duration = Duration::from_millis(253_402_300_799_999);
    let passed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    humantime::format_rfc3339_millis(UNIX_EPOCH + passed.min(LAST)).to_string()
}

/// Returns a duration in milliseconds, the greatest number instead of a greater one.
#[must_use]
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(HolderView::of(&holder, UNIX_EPOCH).name(), NOT_KNOWN);
        holder.process = Some(process.clone());
        lock.add_holder(holder);
        let mut waiter = WaiterInfo::new(owner(2), LockMode::Exclusive);
        let handle = waiter.owner.handle().to_string();
        assert_eq!(WaiterView::of(&waiter).name(), handle);
        waiter.process = Some(process);
        lock.add_waiter(waiter);
        let view = LockView::of(&lock, UNIX_EPOCH);
        let named = [view.holders[0].name(), view.waiters[0].name()];
        assert_eq!(named, ["cron@host/1"; 2]);
        let document = serde_json::to_value(&view).expect("it is JSON");
        assert_eq!(document["holder"], document["holders"][0]);
        let foreign = HolderInfo::new(None, 0, UNIX_EPOCH);
        let foreign = HolderView::of(&foreign, UNIX_EPOCH);
        assert_eq!((foreign.name(), &foreign.token), (THIRD_PARTY, &None));
    }

    #[test]
    fn times_are_written_as_in_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (1_704_067_199_007, "2023-12-31T23:59:59.007Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(moment(UNIX_EPOCH + Duration::from_millis(ms)), text);
        }
        let before = UNIX_EPOCH - Duration::from_millis(7);
        assert_eq!(moment(before), "1970-01-01T00:00:00.000Z");
    }
}
