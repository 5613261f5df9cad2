//! `dlock run`: runs a command while holding a lock.
//!
//! **The command** inherits the standard streams and the environment, plus the key and the fencing token. The lease is
//! renewed while the command runs and released after its end.
//!
//! # Rules
//!
//! - Processes that a command leaves in the background when it ends by itself run without the lock: a command may start
//!   a service. (`processes_in_the_background_keep_running`)
//! - **[S]** A command that a signal has ended, or that ends after a signal was passed on, has not ended by itself. All that
//!   it has started gets `SIGTERM`, and `SIGKILL` after `--kill-after` or with the lease, and the lock is released after
//!   that. (`the_lock_is_kept_until_what_an_ended_command_has_started_has_ended`)
//! - **[S]** A lease that ends is the end of the command and of all that it has started, with a terminal and without.
//!   (`at_a_terminal_children_end_with_the_lease`)
//!
//! **Signals.** Without a terminal, as under cron and systemd, the command leads its own process group, and signals
//! end the whole group, including the processes that a shell has started. With a controlling terminal the command
//! stays in the group of `dlock`: only so can it read the terminal, be stopped by Ctrl-Z and take part in job control.
//! The terminal then sends Ctrl-C and Ctrl-\ to both processes, so `dlock` does not pass on `SIGINT` and `SIGQUIT`. The
//! group can contain processes that do not belong to the command, so those that do are found by their parents
//! (`tree.rs`), which only Linux tells. Elsewhere the command alone is ended, and a message says so. A Ctrl-C in the
//! microseconds between the last check for signals and the start of the command reaches neither process and must be
//! repeated.
//!
//! **A lease in danger.** A lease that is no longer renewed ends at a known time. The command gets `SIGTERM`
//! `--kill-after` before that time, so that it has ended when another client acquires the lock. A lease that was
//! revoked has already ended, so the command gets `SIGTERM` at once.
//!
//! **`dlock` itself is stopped or killed.** Then it cannot signal the command. The watchdog does, a second process of
//! this program: it reads how long the lease is valid, and ends the command when the messages stop. It does not know
//! the command between its start and the first message about it. (A parent-death signal, which Linux has, would not
//! reach the children of the command, and would not be sent if `dlock` is only stopped.)

mod command;
mod options;
mod processes;
mod record;
mod signals;
mod supervise;
mod target;
mod tree;
mod watchdog;

pub(crate) use self::{
    options::RunArgs,
    watchdog::{WatchdogArgs, watch_over},
};

use std::time::Duration;

use dlock::{LockManager, Wait};

use self::{
    command::RunningCommand, record::Record, signals::Signals, supervise::supervise,
    watchdog::Watchdog,
};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    text::rough,
};

/// The limit for the server to confirm a release.
const RELEASE_LIMIT: Duration = Duration::from_secs(3);

pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<Exit, Failure> {
    let mut record = Record::begin(global, &args);
    let outcome = run_recorded(global, &args, &mut record).await;
    record.end(match &outcome {
        Ok(exit) => exit.code(),
        Err(failure) => failure.exit().code(),
    });
    outcome
}

async fn run_recorded(
    global: &Global,
    args: &RunArgs,
    record: &mut Record<'_>,
) -> Result<Exit, Failure> {
    if global.url.starts_with("memory:") {
        let message = "cannot use `memory://`: its locks exist only inside this process. Use the URL of a server";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut signals = Signals::listen()?;
    // The TTL of the builder is checked, too, and its usual one may be too long for this store.
    let builder = global.builder()?.application(args.application());
    let builder = builder.ttl(args.ttl);
    let manager = tokio::select! {
        connected = builder.connect(&global.url) => connected?,
        signal = signals.next() => return Ok(signals::exit_of(signal)),
    };
    let outcome = under_lock(global, &manager, args, &mut signals, record).await;
    let shutdown = manager.shutdown(RELEASE_LIMIT).await;
    if shutdown.unreleased > 0 {
        let (key, ttl) = (&args.key, rough(args.ttl));
        let message = format!(
            "the server did not confirm the release of `{key}`. If the release was lost, the lock \
             expires within its TTL of {ttl}"
        );
        note(global.json, &message);
    }
    outcome
}

async fn under_lock(
    global: &Global,
    manager: &LockManager,
    args: &RunArgs,
    signals: &mut Signals,
    record: &mut Record<'_>,
) -> Result<Exit, Failure> {
    let mut request = manager.lock(&args.key).ttl(args.ttl).wait(args.wait());
    if let Some(min_hold) = args.min_hold {
        request = request.min_hold(min_hold);
    }
    if args.shared {
        request = request.shared();
    }
    if let Some(most) = args.permits {
        request = request.permits(most);
    }
    let acquired = tokio::select! {
        acquired = request.acquire() => acquired,
        signal = signals.next() => return Ok(signals::exit_of(signal)),
    };
    let guard = acquired.map_err(|error| {
        let is_busy = error.is_busy();
        let failure = Failure::from(error);
        if is_busy {
            failure.ending_with(Exit::Command(args.conflict_exit_code))
        } else {
            failure
        }
    })?;
    record.acquired();
    // The watchdog starts first, because the command must not run without it.
    let watchdog = Watchdog::start(args.kill_after())?;
    // A signal may have arrived during the last request. Then the command must not start: a terminal could not send
    // the signal to a command that did not exist yet.
    if let Some(signal) = signals.arrived().await {
        watchdog.dismiss().await;
        args.tell_of_min_hold(global);
        return Ok(signals::exit_of(signal));
    }
    let mut command = RunningCommand::start(&args.command, guard.lease())
        .inspect_err(|_| args.tell_of_min_hold(global))?;
    watchdog.watches(command.target());
    let outcome = supervise(global, args, &guard, &mut command, signals, &watchdog).await;
    watchdog.dismiss().await;
    let released = guard.release().await;
    record.is_lost = released.is_err();
    let exit = outcome?;
    // The lease may have been lost shortly before the end of the command.
    released?;
    Ok(exit)
}

impl RunArgs {
    fn wait(&self) -> Wait {
        if self.no_wait { Wait::Never } else { self.wait }
    }

    /// Prints that the lock stays held although no command was run.
    fn tell_of_min_hold(&self, global: &Global) {
        if let Some(min_hold) = self.min_hold {
            let (key, min_hold) = (&self.key, rough(min_hold));
            let message = format!(
                "nothing was run, but `--min-hold` keeps `{key}` for {min_hold}. Release it with \
                 `dlock unlock`"
            );
            note(global.json, &message);
        }
    }

    /// Returns the application name, which other processes see.
    fn application(&self) -> String {
        if let Some(name) = &self.application {
            return name.clone();
        }
        let program = std::path::Path::new(&self.command[0]);
        let name = program.file_name().unwrap_or(program.as_os_str());
        format!("dlock-run:{}", name.to_string_lossy())
    }

    /// Returns the time between `SIGTERM` and `SIGKILL`.
    fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(self.ttl / 3)
    }
}
