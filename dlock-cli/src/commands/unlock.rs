//! `dlock unlock`: force-releases a lock, after it has shown the holder.

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

/// Takes a lock away from whoever holds it
///
/// It shows who that is and asks, and takes away nothing but the lease that it has shown. The
/// exit code is 1 if nobody holds the lock, if it has changed hands meanwhile, or if the
/// answer is no.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UnlockArgs {
    /// The lock
    key: String,
    /// Does not ask; needed if the standard input is no terminal
    #[arg(short, long)]
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
        let message = "there is no terminal to ask at: give `--yes` to unlock without being asked";
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
            "free" => format!("Nobody holds `{key}`."),
            "declined" => format!("Nothing was done to `{key}`."),
            "changed" => format!("Nothing was done: somebody else has `{key}` by now, or nobody."),
            "handed-on" => format!("Unlocked `{key}`: the first who waited has it now."),
            _ => format!("Unlocked `{key}`: it is free."),
        })?;
    }
    Ok(match outcome {
        "free" | "declined" | "changed" => Exit::Negative,
        _ => Exit::Success,
    })
}

/// The effects of an unlock, and its limits.
fn consequences(lock: &LockView, holder: &HolderView) -> String {
    let to_holder = if holder.is_foreign() {
        "A client of another make holds it: it is not told, and goes on as if it had the lock."
    } else {
        "Its holder is told, and loses the lease as if it had expired; what it is doing at the moment\n\
         may still be done after others have the lock, unless the resource checks fencing tokens."
    };
    let dead = lock
        .waiters
        .iter()
        .filter(|waiter| !waiter.is_alive)
        .count();
    let to_waiters = match lock.waiter_count - dead {
        0 => "Nobody waits: the lock will be free.".to_owned(),
        1 => "One waits, and will have the lock.".to_owned(),
        count => format!("{count} wait, of which the first will have the lock."),
    };
    format!("{to_holder}\n{to_waiters}")
}

fn is_confirmed(key: &str) -> Result<bool, Failure> {
    // The question does not belong into a file with the output.
    write!(io::stderr().lock(), "Unlock `{}`? [y/N] ", printable(key))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
