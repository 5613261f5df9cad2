//! `dlock unlock`: force-releases a lock after showing its holder.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    time::SystemTime,
};

use clap::Args;
use dlock::{LockKey, StoreError, StoreErrorKind, store::ClaimHandle};
use dlock_admin::{
    Unlocked,
    view::{HolderView, LockView},
};
use serde::Serialize;
use tracing::warn;

use super::inspect::described;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    operator, output,
    text::printable,
};

/// The target of the log events.
pub(crate) const TARGET: &str = "dlock::unlock";

/// Force-releases a lock
///
/// It shows the holders, asks for confirmation, and releases only a lease that it has shown.
/// Of a shared lock, it releases the lease of one holder with `--holder`, or of all with
/// `--all`, including holders that joined later.
///
/// While others share the lock, fencing tokens do not stop the writes of a released holder,
/// because all holders have the same token. The exit code is 1 if the lock is free, if it has
/// another holder by then, or if the answer is no.
///
/// Each lease that is released is logged to the standard error, with the user and the host.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UnlockArgs {
    /// The key of the lock
    key: String,
    /// Does not ask; required if the standard input is not a
    /// terminal
    #[arg(short, long, verbatim_doc_comment)]
    yes: bool,
    /// Releases the lease of this holder of a shared lock: its
    /// handle, as `dlock inspect` shows it
    #[arg(
        long,
        verbatim_doc_comment,
        value_name = "HANDLE",
        conflicts_with = "all"
    )]
    holder: Option<ClaimHandle>,
    /// Releases the leases of all holders of a shared lock
    #[arg(long)]
    all: bool,
}

/// The result, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    key: &'a str,
    outcome: &'static str,
    holder: Option<&'a HolderView>,
    /// All holders to release.
    holders: &'a [HolderView],
}

pub(crate) async fn run(global: &Global, args: UnlockArgs) -> Result<Exit, Failure> {
    let key = LockKey::new(&args.key)?;
    if !args.yes && (global.json || !io::stdin().is_terminal()) {
        let message = "cannot ask for confirmation without a terminal: add `--yes`";
        return Err(Failure::new(Exit::Usage, message));
    }
    let inspector = global.inspector().await?;
    let seen = inspector.lock(&key).await?;
    let Some(seen) = seen.filter(|seen| seen.holder.is_some()) else {
        if !global.json {
            let reading = global.reading(&*inspector).await;
            let key = printable(&args.key);
            output::line(&format!("`{key}` is free in {}.", printable(&reading)))?;
            return Ok(Exit::Negative);
        }
        return print(global, &args.key, "free", &[]);
    };
    let lock = LockView::of(&seen, SystemTime::now());
    let wanted = wanted(&args, &lock)?;
    if !global.json {
        output::line(described(&lock).trim_end())?;
        output::line("")?;
        output::line(&consequences(&lock, &wanted))?;
    }
    if !args.yes && !is_confirmed(&args.key)? {
        return print(global, &args.key, "declined", &wanted);
    }
    let mut owners = seen.holders().filter_map(|it| it.owner);
    let owner = owners.find(|owner| Some(owner.handle()) == args.holder);
    let unlocked = inspector.unlock(&seen, owner).await;
    let unlocked = unlocked.map_err(|error| {
        log(&args.key, &wanted, Err(&error));
        // A lease on which a transaction relies.
        if error.kind() == StoreErrorKind::Refused && error.has_no_effect() {
            Failure::new(Exit::Negative, error.to_string())
        } else {
            error.into()
        }
    })?;
    let outcome = match unlocked {
        Unlocked::Freed => "freed",
        Unlocked::Granted => "granted",
        Unlocked::StillShared => "still-shared",
        Unlocked::Changed => "changed",
        _ => "unlocked",
    };
    log(&args.key, &wanted, Ok(outcome));
    print(global, &args.key, outcome, &wanted)
}

/// Leaves a record of what became of each lease, for those who look for the reason later.
fn log(key: &str, leases: &[HolderView], done: Result<&str, &StoreError>) {
    let by = operator::name();
    for lease in leases {
        // As texts they are escaped: keys and labels must not control a terminal.
        let (holder, handle) = (lease.label.as_deref(), lease.handle.as_deref());
        let token = lease.token.as_deref();
        match done {
            Ok(outcome) => {
                warn!(target: TARGET, by, key, holder, handle, token, outcome, "force-release");
            }
            Err(error) => {
                let error = error.to_string();
                warn!(target: TARGET, by, key, holder, handle, token, error, "force-release failed");
            }
        }
    }
}

/// Returns the holders to release. A shared lock requires a choice.
fn wanted(args: &UnlockArgs, lock: &LockView) -> Result<Vec<HolderView>, Failure> {
    let refused = |exit: Exit, message: String| {
        let holders = lock.holders.iter();
        let holders = holders.map(|it| {
            let handle = it.handle.as_deref().unwrap_or("-");
            format!("{handle} ({})", printable(it.name()))
        });
        let holders = holders.collect::<Vec<_>>().join(", ");
        let message = format!("{message}. Its holders: {holders}");
        Failure::new(exit, message)
    };
    let key = &args.key;
    match args.holder.map(|handle| handle.to_string()) {
        Some(handle) => {
            let holders = lock.holders.iter();
            let mut same = holders.filter(|it| it.handle.as_ref() == Some(&handle));
            let holder = same.next().cloned().map(|it| vec![it]);
            // It may have left since the caller saw it.
            let message = format!("`{handle}` does not hold `{key}`");
            holder.ok_or_else(|| refused(Exit::Negative, message))
        }
        None if lock.is_shared() && !args.all => {
            let message = format!("`{key}` is a shared lock: add `--holder HANDLE` or `--all`");
            Err(refused(Exit::Usage, message))
        }
        None => Ok(lock.holders.clone()),
    }
}

fn print(
    global: &Global,
    key: &str,
    outcome: &'static str,
    holders: &[HolderView],
) -> Result<Exit, Failure> {
    if global.json {
        output::document(&Report {
            key,
            outcome,
            holder: holders.first(),
            holders,
        })?;
    } else {
        let key = printable(key);
        output::line(&match outcome {
            "declined" => format!("`{key}` was not released."),
            "changed" => {
                format!("`{key}` was not released: it has another holder by now, or is free.")
            }
            "granted" => format!(
                "Released `{key}`: it was granted to the next waiter, or to all that may share it."
            ),
            "still-shared" => {
                format!(
                    "Released the lease of {} for `{key}`: others share it.",
                    names(holders)
                )
            }
            _ => format!("Released `{key}`: it is free."),
        })?;
    }
    Ok(match outcome {
        "free" | "declined" | "changed" => Exit::Negative,
        _ => Exit::Success,
    })
}

fn names(holders: &[HolderView]) -> String {
    holders
        .iter()
        .map(|it| printable(it.name()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Describes the effects of a forced release, and its limits.
fn consequences(lock: &LockView, wanted: &[HolderView]) -> String {
    let stay = lock.holder_count.saturating_sub(wanted.len());
    let to_holder = if wanted.iter().any(HolderView::is_foreign) {
        "A third-party client holds this lock. It is not notified, and continues as if it held the lock.".to_owned()
    } else if lock.is_shared() && wanted.len() < lock.holders.len() {
        format!(
            "{} is notified and loses its lease. Work that it has already started can still complete.\n\
             Fencing tokens do not stop it while others share the lock: all holders have the same token.",
            names(wanted)
        )
    } else if lock.holder_count > 1 {
        format!(
            "All {} holders are notified and lose their leases, including holders that join before the\n\
             release. Work that\n\
             they have already started can still complete after another client acquired the lock, unless the\n\
             resource checks fencing tokens.",
            lock.holder_count
        )
    } else {
        "The holder is notified and loses its lease. Work that it has already started can still complete\n\
         after another client acquired the lock, unless the resource checks fencing tokens."
            .to_owned()
    };
    let dead = lock
        .waiters
        .iter()
        .filter(|waiter| !waiter.is_alive)
        .count();
    let to_waiters = match lock.waiter_count - dead {
        _ if stay > 0 && wanted.len() < lock.holders.len() => match stay {
            1 => "1 other holder stays.".to_owned(),
            count => format!("{count} other holders stay."),
        },
        0 => "There are no waiters: the lock will be free.".to_owned(),
        1 => "1 waiter: it will hold the lock.".to_owned(),
        count => format!(
            "{count} waiters: the first one, or all at the front that may share the lock, will hold it."
        ),
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
