//! `dlock inspect`: all that a server knows of one lock.

use std::{fmt::Write, time::SystemTime};

use clap::Args;
use dlock::{LockKey, admin::Inspector};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    output,
    text::{printable, rough},
    view::{HolderView, LockView, ProcessView},
};

/// Shows all that is known of one lock: who holds it, who waits, and since when
///
/// The exit code is 1 if nobody holds it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    /// The lock
    key: String,
}

pub(crate) async fn run(global: &Global, args: InspectArgs) -> Result<Exit, Failure> {
    let key = LockKey::new(&args.key)?;
    let inspector = Inspector::connect(global.config()).await?;
    let found = inspector.lock(&key).await?;
    let now = SystemTime::now();
    let lock = found.map_or_else(|| LockView::free(&args.key), |it| LockView::of(&it, now));
    if global.json {
        output::document(&lock)?;
    } else {
        output::line(described(&lock).trim_end())?;
    }
    Ok(match lock.holder {
        Some(_) => Exit::Success,
        None => Exit::Negative,
    })
}

/// A lock in several lines.
pub(super) fn described(lock: &LockView) -> String {
    let mut lines = Lines(String::new());
    lines.add("lock", &printable(&lock.key));
    match &lock.holder {
        Some(holder) => lines.holder(holder),
        None => lines.add("holder", "nobody"),
    }
    if lock.servers > 1 {
        let count = format!("{} of {}", lock.held_at, lock.servers);
        lines.add("servers", &count);
    }
    if lock.last_fence > 0 {
        lines.add("last fence", &lock.last_fence.to_string());
    }
    lines.add("waiters", &lock.waiter_count.to_string());
    for (place, waiter) in lock.waiters.iter().enumerate() {
        let life = if waiter.is_alive {
            ""
        } else {
            ", without a sign of life: it will be passed over"
        };
        let text = format!("{}, for {}{life}", waiter.name(), rough(waiter.waiting()));
        lines.add(&format!("  {}.", place + 1), &text);
    }
    let untold = lock.waiter_count.saturating_sub(lock.waiters.len());
    if untold > 0 {
        lines.add("", &format!("and {untold} more"));
    }
    if let Some(hint) = lock.holder.as_ref().and_then(hint) {
        let _ = write!(lines.0, "\n{hint}\n");
    }
    lines.0
}

/// An explanation of locks that look unusual.
fn hint(holder: &HolderView) -> Option<&'static str> {
    match (holder.is_foreign(), holder.ttl_ms) {
        (true, None) => Some(
            "A client of another make has set it, without a TTL: nothing ends it but that client, or\n\
             `dlock unlock` if that client is known to be gone.",
        ),
        (true, Some(_)) => Some(
            "A client of another make has set it; it ends with its TTL, unless that client prolongs it.",
        ),
        (false, None) => Some(
            "It has no TTL, which dlock never does: somebody has written or restored it by hand.",
        ),
        (false, Some(_)) => None,
    }
}

struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, text: &str) {
        writeln!(self.0, "{name:<15}{text}").expect("memory takes all that is written");
    }

    fn holder(&mut self, holder: &HolderView) {
        self.add("holder", &holder.name());
        if let Some(function) = &holder.function {
            self.add("  function", &printable(function));
        }
        if let Some(process) = &holder.process {
            self.process(process);
        }
        if let (Some(since), Some(held)) = (&holder.since, holder.held()) {
            self.add("  since", &format!("{since}, for {}", rough(held)));
        }
        let ttl = holder.ttl().map_or_else(|| "none".to_owned(), rough);
        self.add("  TTL", &ttl);
        if let Some(token) = &holder.token {
            self.add("  fence", &holder.fence.to_string());
            self.add("  token", &format!("{token} or slightly more"));
        }
        if let Some(owner) = &holder.owner {
            self.add("  owner", owner);
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
