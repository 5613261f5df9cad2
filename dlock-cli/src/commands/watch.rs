//! `dlock watch`: prints changes of locks, line by line, until it is interrupted.
//!
//! It reads all locks at intervals, reads a lock at once when it is granted to a waiter, and prints the differences. A
//! change that is undone between two readings is not visible.

mod difference;

use std::{
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use clap::Args;
use dlock_admin::{
    Grants, Inspect,
    view::{LockView, moment},
};
use futures_util::FutureExt;
use jiff::Zoned;
use tokio::time::{Instant, sleep_until};

use self::difference::{Change, Event, differences};
use crate::{
    exit::{Exit, Failure, note},
    follow::Follower,
    global::Global,
    output,
    text::{printable, rough},
};

/// Prints changes of locks as they happen, until it is interrupted
///
/// The first lines list the locks that are held at the start. A change that is undone between
/// two readings is not visible. If the server does not answer, the command prints that and
/// continues when the server is back.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchArgs {
    /// Watches only the locks whose keys match this Redis
    /// pattern: `*` matches any text, `?` any character
    #[arg(verbatim_doc_comment)]
    pattern: Option<String>,
    /// The time between two readings, 10ms to 24h
    #[arg(short, long, value_name = "DURATION", value_parser = parse_interval, default_value = "1s")]
    interval: Duration,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);
    if !bounds.contains(&interval) {
        return Err("must be from 10ms to 24h".to_owned());
    }
    Ok(interval)
}

pub(crate) async fn run(global: &Global, args: WatchArgs) -> Result<Exit, Failure> {
    let inspector = global.inspector().await?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Success)
        }
        failure = watch(global, &args, &inspector) => Err(failure),
    }
}

/// An event says how old its last reading is, if that is older than the interval and this time.
const SURE: Duration = Duration::from_secs(1);

/// Reads the locks until a final failure.
async fn watch(global: &Global, args: &WatchArgs, inspector: &Arc<dyn Inspect>) -> Failure {
    let mut follower = Follower::new(inspector.clone(), args.pattern.clone());
    let mut lag = Lag::default();
    let (mut known, mut looked) = (Vec::new(), (Instant::now(), SystemTime::now()));
    let mut is_first = true;
    let mut is_out = false;
    let (mut grants, mut may_listen) = (None, true);
    loop {
        let began = Instant::now();
        // Subscribe before the reading, so that no grant falls between the two.
        if grants.is_none() && may_listen {
            match inspector.grants().await {
                Ok(listened) => grants = Some(listened),
                // Without the permission to subscribe, or in a store without messages about grants, the next reading
                // finds them.
                Err(error) => may_listen = !error.is_final(),
            }
        }
        while let Some(Some(key)) = next(&mut grants).now_or_never() {
            follower.hear_of(&key);
        }
        let found = follower.look(args.interval, next(&mut grants)).await;
        let told = match found {
            Ok(seen) => {
                lag.tell(global, seen.lag);
                let now = SystemTime::now();
                let locks = seen.locks.iter();
                let locks: Vec<_> = locks.map(|it| LockView::of(it, now)).collect();
                let back = is_out.then(|| Event::of_server(Change::Back, None));
                let events = differences(&known, &locks, is_first);
                let last = mem::replace(&mut looked, (Instant::now(), now));
                let events = events.into_iter().map(|it| it.after(last));
                known = locks;
                (is_first, is_out) = (false, false);
                back.into_iter()
                    .chain(events)
                    .try_for_each(|event| tell(global, args.interval, &event))
            }
            // A missing permission does not come back by itself.
            Err(error) if is_first && error.is_final() => return error.into(),
            Err(_) if is_out => Ok(()),
            Err(error) => {
                is_out = true;
                let event = Event::of_server(Change::Outage, Some(error.to_string()));
                tell(global, args.interval, &event)
            }
        };
        if let Err(failure) = told {
            return failure;
        }
        // A lock with frequent grants must not cause constant readings.
        let soonest = Instant::now() + args.interval / 10;
        let latest = soonest.max(began + args.interval);
        match pause(&mut grants, soonest, latest).await {
            Ok(None) => {}
            Ok(Some(key)) => follower.hear_of(&key),
            Err(failure) => return failure,
        }
    }
}

/// The time of a scan of all keys, if it is longer than the interval.
#[derive(Default)]
struct Lag(Option<Duration>);

impl Lag {
    /// Prints a note when scans become too long, and when the time has doubled since the last note.
    fn tell(&mut self, global: &Global, lag: Option<Duration>) {
        match (self.0, lag) {
            (Some(told), Some(now)) if now < told * 2 => {}
            (_, Some(now)) => {
                self.0 = lag;
                let now = rough(now);
                let text = format!(
                    "a scan of all keys takes {now}, to spare the server: changes of locks without waiters can \
                     appear that late"
                );
                note(global.json, &text);
            }
            (_, None) => self.0 = None,
        }
    }
}

/// Returns the key of the next grant. A broken connection is opened again before the next reading.
async fn next(grants: &mut Option<Grants>) -> Option<String> {
    let Some(it) = grants else {
        return std::future::pending().await;
    };
    let grant = it.next().await;
    if grant.is_none() {
        *grants = None;
    }
    grant.map(|it| it.key)
}

/// Waits for the next grant, at least until `soonest` and at most until `latest`, and returns its key.
async fn pause(
    grants: &mut Option<Grants>,
    soonest: Instant,
    latest: Instant,
) -> Result<Option<String>, Failure> {
    /// The longest time until a closed output is noticed.
    const LOOK_AT_OUTPUT: Duration = Duration::from_millis(250);

    let reader_gone = async {
        while !output::is_closed() {
            tokio::time::sleep(LOOK_AT_OUTPUT).await;
        }
    };
    let heard = tokio::select! {
        biased;
        () = reader_gone => {
            return Err(Failure::new(Exit::Success, "the output was closed"));
        }
        heard = next(grants) => heard,
        () = sleep_until(latest) => None,
    };
    sleep_until(soonest).await;
    Ok(heard)
}

fn tell(global: &Global, interval: Duration, event: &Event) -> Result<(), Failure> {
    if global.json {
        return output::json_line(event);
    }
    match event.change {
        Change::Outage => {
            let message = event.message.as_deref().unwrap_or_default();
            note(false, &format!("{message}; waiting for the server"));
            Ok(())
        }
        Change::Back => {
            note(false, "the server answers again");
            Ok(())
        }
        _ => output::line(&words(interval, event)),
    }
}

/// Formats an event in one line.
fn words(interval: Duration, event: &Event) -> String {
    let time = Zoned::now().strftime("%H:%M:%S%.3f");
    let key = printable(event.key.as_deref().unwrap_or_default());
    let who = match (&event.holder, &event.waiter) {
        (_, Some(waiter)) => printable(waiter.name()),
        (Some(holder), None) => printable(holder.name()),
        (None, None) => "".into(),
    };
    let function = event.holder.as_ref().and_then(|it| it.function.as_deref());
    let function = function.map(|it| format!(" in {}", printable(it)));
    let held = event.holder.as_ref().and_then(|it| it.held_ms);
    let held = held.map(Duration::from_millis);
    let held = match event.change {
        // The lease may have ended at any time since the last reading.
        Change::Released if event.unseen > interval + SURE => held.map(|it| {
            let (held, ago) = (rough(it), rough(event.unseen));
            format!(", held for at least {held}, last seen {ago} ago")
        }),
        Change::Released | Change::Held => held.map(|it| format!(", held for {}", rough(it))),
        _ => None,
    };
    let (function, held) = (function.unwrap_or_default(), held.unwrap_or_default());
    let is_shared = event.holder.is_some() && event.mode == Some("shared");
    let shared = match event.holders {
        Some(holders) if is_shared => format!(", shared by {holders}"),
        _ => String::new(),
    };
    format!(
        "{time}  {:<8}  {key}  {who}{function}{held}{shared}",
        event.change.word()
    )
}

impl Event {
    fn of_server(change: Change, message: Option<String>) -> Self {
        Self {
            message,
            ..Self::new(change)
        }
    }

    fn new(change: Change) -> Self {
        Self {
            time: moment(SystemTime::now()),
            change,
            key: None,
            holder: None,
            waiter: None,
            mode: None,
            holders: None,
            waiters: None,
            message: None,
            last_seen: None,
            unseen: Duration::ZERO,
        }
    }

    /// Adds the time of the last reading to a release.
    fn after(self, (seen, at): (Instant, SystemTime)) -> Self {
        if self.change != Change::Released {
            return self;
        }
        Self {
            last_seen: Some(moment(at)),
            unseen: seen.elapsed(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use dlock_admin::{HolderInfo, view::HolderView};

    use super::*;

    #[test]
    fn released_leases_show_their_last_reading() {
        let interval = Duration::from_secs(1);
        let now = UNIX_EPOCH + Duration::from_secs(1);
        let mut holder = HolderInfo::new(None, 0, now);
        holder.label = Some("billing@host/1".to_owned());
        holder.since = Some(now - Duration::from_millis(592));
        let holder = HolderView::of(&holder, now);
        for (change, unseen, told) in [
            (Change::Released, 1_100, "billing@host/1, held for 592ms"),
            (
                Change::Released,
                34_000,
                "billing@host/1, held for at least 592ms, last seen 34s ago",
            ),
            (Change::Held, 34_000, "billing@host/1, held for 592ms"),
            (Change::Acquired, 34_000, "billing@host/1"),
        ] {
            let event = Event {
                holder: Some(holder.clone()),
                unseen: Duration::from_millis(unseen),
                ..Event::new(change)
            };
            let line = words(interval, &event);
            assert!(line.ends_with(&format!("  {told}")), "{line}");
        }
    }
}
