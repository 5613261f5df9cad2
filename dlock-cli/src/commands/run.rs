//! `dlock run`: a command that runs only while a lock is held.
//!
//! **The command** gets the standard streams and the environment, with the lock and its token added. The lock is kept
//! alive while the command runs, and released when it has ended; processes that it leaves in the background run
//! without the lock.
//!
//! **Signals.** Without a terminal, as under cron and systemd, the command is the leader of a
//! process group of its own, and the whole group is ended, so that no process that a shell has started
//! goes on. With a controlling terminal it stays in the group of `dlock`: only so can it read the terminal,
//! be stopped by Ctrl-Z and take part in job control. The terminal then sends Ctrl-C and Ctrl-\ to both
//! by itself, so that `dlock` does not pass `SIGINT` and `SIGQUIT` on, and only the command itself can be
//! ended, since the others of the group are not ours alone. A Ctrl-C in the microseconds between the last look at
//! signals and the birth of the command reaches neither of them, and has to be pressed again.
//!
//! **A lease in danger.** A lease that is no longer renewed ends at a known moment, and the command gets its signal
//! `--kill-after` before that, so that it has ended when another holder gets the lock. For a lease that was
//! revoked that moment has passed: the command gets its signal at once.
//!
//! **`dlock` itself is stopped or killed.** Then it can send no signal to the command. A second process of
//! this program does, the watchdog: it reads how long the lease is valid, and ends the command when the
//! messages stop. Only between the start of the command and the line by which the watchdog learns of it
//! would it come too late. (A signal at the death of the parent, which Linux has, would reach neither
//! the command's own children nor help against a `dlock` that was only stopped.)

mod command;
mod options;
mod signals;
mod supervise;
mod watchdog;

pub(crate) use self::{
    options::RunArgs,
    watchdog::{WatchdogArgs, watch_over},
};

use std::time::Duration;

use dlock::{LockManager, Wait};

use self::{command::RunningCommand, signals::Signals, supervise::supervise, watchdog::Watchdog};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    text::rough,
};

/// The time to wait for a server that does not confirm a release.
const RELEASE_LIMIT: Duration = Duration::from_secs(3);

pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<Exit, Failure> {
    if global.url.starts_with("memory:") {
        let message = "`memory://` keeps nobody else out, as its locks end with `dlock run` itself: name a server";
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut signals = Signals::listen()?;
    let builder = global.builder().application(args.application());
    let manager = tokio::select! {
        connected = builder.connect(&global.url) => connected?,
        signal = signals.next() => return Ok(signals::exit_of(signal)),
    };
    let outcome = under_lock(global, &manager, &args, &mut signals).await;
    let shutdown = manager.shutdown(RELEASE_LIMIT).await;
    if shutdown.unreleased > 0 {
        let (key, ttl) = (&args.key, rough(args.ttl));
        let message = format!(
            "the server has not confirmed that `{key}` is free: if it did not hear of it, its TTL \
             of {ttl} ends it"
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
) -> Result<Exit, Failure> {
    let mut request = manager.lock(&args.key).ttl(args.ttl).wait(args.wait());
    if let Some(min_hold) = args.min_hold {
        request = request.min_hold(min_hold);
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
    // Before the command, as it must not run without.
    let watchdog = Watchdog::start(args.kill_after())?;
    // A signal that arrived before the start, perhaps while the grant was on its way, means that the command must not
    // start. A terminal did not send it to the command, which was not there.
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
    let exit = outcome?;
    // The command may have ended while the lease was being lost.
    released?;
    Ok(exit)
}

impl RunArgs {
    fn wait(&self) -> Wait {
        if self.no_wait { Wait::Never } else { self.wait }
    }

    /// Says that others are kept out, although nothing was run.
    fn tell_of_min_hold(&self, global: &Global) {
        if let Some(min_hold) = self.min_hold {
            let (key, min_hold) = (&self.key, rough(min_hold));
            let message = format!(
                "nothing was run, and `--min-hold` keeps `{key}` for {min_hold} all the same; \
                 `dlock unlock` frees it"
            );
            note(global.json, &message);
        }
    }

    /// The name of the holder that other processes see.
    fn application(&self) -> String {
        if let Some(name) = &self.application {
            return name.clone();
        }
        let program = std::path::Path::new(&self.command[0]);
        let name = program.file_name().unwrap_or(program.as_os_str());
        format!("dlock-run:{}", name.to_string_lossy())
    }

    /// The time that the command has between the two signals.
    fn kill_after(&self) -> Duration {
        self.kill_after.unwrap_or(self.ttl / 3)
    }
}
