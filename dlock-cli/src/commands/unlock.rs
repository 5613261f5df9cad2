//! `dlock unlock`: force-releases a lock after showing its holder.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    time::SystemTime,
};

use clap::Args;
use dlock::{
    LockKey,
    admin::{Inspector, Unlocked},
};
use serde::Serialize;

use super::inspect::described;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output,
    text::printable,
    view::{HolderView, LockView},
};

/// Force-releases a lock
///
/// It shows the holder, asks for confirmation, and releases only the lease that it has shown.
/// The exit code is 1 if the lock is free, if it has another holder by then, or if the answer
/// is no.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UnlockArgs {
    /// The key of the lock
    key: String,
    /// Does not ask; required if the standard input is not a
    /// terminal
    #[arg(short, long, verbatim_doc_comment)]
    yes: bool,
}

/// The result, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    key: &'a str,
    outcome: &'static str,
    holder: Option<&'a HolderView>,
}

pub(crate) async fn run(global: &Global, args: UnlockArgs) -> Result<Exit, Failure> {
    let key = LockKey::new(&args.key)?;
    if !args.yes && (global.json || !io::stdin().is_terminal()) {
        let message = "cannot ask for confirmation without a terminal: add `--yes`";
        return Err(Failure::new(Exit::Usage, message));
    }
    let inspector = Inspector::connect(global.config()).await?;
    let seen = inspector.lock(&key).await?;
    let Some((seen, lock, holder)) = seen.and_then(|seen| {
        let lock = LockView::of(&seen, SystemTime::now());
        let holder = lock.holder.clone()?;
        Some((seen, lock, holder))
    }) else {
        return tell(global, &args.key, "free", None);
    };
    if !global.json {
        output::line(described(&lock).trim_end())?;
        output::line("")?;
        output::line(&consequences(&lock, &holder))?;
    }
    if !args.yes && !is_confirmed(&args.key)? {
        return tell(global, &args.key, "declined", Some(&holder));
    }
    let outcome = match inspector.unlock(&seen).await? {
        Unlocked::Freed => "freed",
        Unlocked::HandedOn => "handed-on",
        Unlocked::Changed => "changed",
        _ => "unlocked",
    };
    tell(global, &args.key, outcome, Some(&holder))
}

fn tell(
    global: &Global,
    key: &str,
    outcome: &'static str,
    holder: Option<&HolderView>,
) -> Result<Exit, Failure> {
    if global.json {
        output::document(&Report {
            key,
            outcome,
            holder,
        })?;
    } else {
        let key = printable(key);
        output::line(&match outcome {
            "free" => format!("`{key}` is free."),
            "declined" => format!("`{key}` was not released."),
            "changed" => {
                format!("`{key}` was not released: it has another holder by now, or is free.")
            }
            "handed-on" => format!("Released `{key}`: the first waiter holds it now."),
            _ => format!("Released `{key}`: it is free."),
        })?;
    }
    Ok(match outcome {
        "free" | "declined" | "changed" => Exit::Negative,
        _ => Exit::Success,
    })
}

/// Describes the effects of a forced release, and its limits.
fn consequences(lock: &LockView, holder: &HolderView) -> String {
    let to_holder = if holder.is_foreign() {
        "A third-party client holds this lock. It is not notified, and continues as if it held the lock."
    } else {
        "The holder is notified and loses its lease. Work that it has already started can still complete\n\
         after another client acquired the lock, unless the resource checks fencing tokens."
    };
    let dead = lock
        .waiters
        .iter()
        .filter(|waiter| !waiter.is_alive)
        .count();
    let to_waiters = match lock.waiter_count - dead {
        0 => "There are no waiters: the lock will be free.".to_owned(),
        1 => "1 waiter: it will hold the lock.".to_owned(),
        count => format!("{count} waiters: the first one will hold the lock."),
    };
    format!("{to_holder}\n{to_waiters}")
}

fn is_confirmed(key: &str) -> Result<bool, Failure> {
    // The question goes to the standard error, because the output may be a file.
    write!(io::stderr().lock(), "Release `{}`? [y/N] ", printable(key))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
