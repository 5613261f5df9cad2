//! `dlock inspect`: shows one lock with its holders and waiters.

use std::{fmt::Write, time::SystemTime};

use clap::Args;
use dlock::LockKey;
use dlock_admin::{
    LockInfo,
    view::{HolderView, LockView, ProcessView},
};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output,
    text::{printable, rough_ms, wish},
};

/// Shows one lock: its holders, its waiters, and their times
///
/// The exit code is 1 if the lock is free.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    /// The key of the lock
    key: String,
}

pub(crate) async fn run(global: &Global, args: InspectArgs) -> Result<Exit, Failure> {
    let key = LockKey::new(&args.key)?;
    let inspector = global.inspector().await?;
    let found = inspector.lock(&key).await?;
    let now = SystemTime::now();
    let lock = LockView::of(&found.unwrap_or_else(|| free(&args.key)), now);
    if global.json {
        output::document(&lock)?;
    } else {
        output::line(described(&lock).trim_end())?;
        if lock.holder().is_none() {
            let reading = global.reading(&*inspector).await;
            output::line(&format!("{:<15}{}", "in", printable(&reading)))?;
        }
    }
    Ok(match lock.holder() {
        Some(_) => Exit::Success,
        None => Exit::Negative,
    })
}

/// Returns a lock that no server has.
fn free(key: &str) -> LockInfo {
    let mut lock = LockInfo::new(key);
    lock.servers = 0;
    lock
}

/// Formats a lock in several lines.
pub(super) fn described(lock: &LockView) -> String {
    let mut lines = Lines(String::new());
    lines.add("lock", &printable(&lock.key));
    if lock.is_shared() {
        lines.add("mode", "shared");
        lines.add("holders", &lock.holder_count.to_string());
    }
    for holder in &lock.holders {
        lines.holder(holder);
    }
    if lock.holder().is_none() {
        lines.add("holder", "none");
    }
    let unlisted = lock.holder_count.saturating_sub(lock.holders.len());
    if unlisted > 0 {
        lines.add("", &format!("and {unlisted} more"));
    }
    if lock.servers > 1 {
        let count = format!("{} of {}", lock.held_at, lock.servers);
        lines.add("servers", &count);
    }
    if let Some(token) = &lock.last_token {
        lines.add("last token", token);
    }
    lines.add("waiters", &lock.waiter_count.to_string());
    for (place, waiter) in lock.waiters.iter().enumerate() {
        let life = if waiter.is_alive {
            ""
        } else {
            ", stopped polling: will be skipped"
        };
        let wish = wish(waiter.mode, waiter.permits).map(|it| format!(" ({it})"));
        let text = format!(
            "{}, waiting for {}{}{life}",
            printable(waiter.name()),
            rough_ms(waiter.waiting_ms),
            wish.unwrap_or_default(),
        );
        lines.add(&format!("  {}.", place + 1), &text);
    }
    let unlisted = lock.waiter_count.saturating_sub(lock.waiters.len());
    if unlisted > 0 {
        lines.add("", &format!("and {unlisted} more"));
    }
    if let Some(hint) = lock.holder().and_then(hint) {
        let _ = write!(lines.0, "\n{hint}\n");
    }
    lines.0
}

/// Explains an unusual lock.
fn hint(holder: &HolderView) -> Option<&'static str> {
    match (holder.is_foreign(), holder.ttl_ms) {
        (true, None) => Some(
            "A third-party client wrote this lock without a TTL: it never expires. If that client is known\n\
             to have ended, release the lock with `dlock unlock`.",
        ),
        (true, Some(_)) => Some(
            "A third-party client wrote this lock. It expires with its TTL unless that client extends it.",
        ),
        (false, None) => Some(
            "This lock has no TTL. dlock always sets one: the lock was written or restored by hand.",
        ),
        (false, Some(_)) => None,
    }
}

struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, text: &str) {
        writeln!(self.0, "{name:<15}{text}").expect("writing to a string cannot fail");
    }

    fn holder(&mut self, holder: &HolderView) {
        self.add("holder", &printable(holder.name()));
        if let Some(function) = &holder.function {
            self.add("  function", &printable(function));
        }
        if let Some(process) = &holder.process {
            self.process(process);
        }
        if let (Some(since), Some(held)) = (&holder.since, holder.held_ms) {
            self.add("  since", &format!("{since}, for {}", rough_ms(held)));
        }
        let ttl = holder.ttl_ms.map_or_else(|| "none".to_owned(), rough_ms);
        self.add("  TTL", &ttl);
        if let Some(token) = &holder.token {
            self.add("  token", &format!("{token} or slightly greater"));
        }
        if let Some(handle) = &holder.handle {
            self.add("  handle", handle);
        }
    }

    fn process(&mut self, process: &ProcessView) {
        if let Some(application) = &process.application {
            self.add("  application", &printable(application));
        }
        self.add("  host", &printable(&process.host));
        let started = &process.started;
        let version = printable(&process.version);
        let text = format!("{}, since {started}, with dlock {version}", process.pid);
        self.add("  process", &text);
    }
}
