//! `dlock watch`: prints changes of locks, line by line, until it is interrupted.
//!
//! It reads all locks at intervals, reads a lock at once when it is granted to a waiter, and prints the differences. A
//! change that is undone between two readings is not visible.

mod difference;

use std::{
    convert::Infallible,
    mem,
    sync::Arc,
    time::{Duration, SystemTime},
};

use clap::Args;
use dlock_admin::{Inspect, view::moment};
use jiff::Zoned;
use tokio::time::sleep;

use self::difference::{Change, Event, differences};
use crate::{
    exit::{Exit, Failure, note},
    follow::{Follower, Pace, Picture},
    global::Global,
    output,
    pages::Wanted,
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
        failure = watch(global, &args, inspector) => Err(failure),
    }
}

/// An event says how old its last reading is, if that is older than the interval and this time.
const SURE: Duration = Duration::from_secs(1);

/// Reads the locks until a final failure.
async fn watch(global: &Global, args: &WatchArgs, inspector: Arc<dyn Inspect>) -> Failure {
    let wanted = Wanted::Matching(args.pattern.clone());
    let follower = Follower::new(inspector, wanted, args.interval);
    let listener = follower.listener();
    tokio::select! {
        // It asks for messages before the first reading.
        biased;
        never = listener.listen() => match never {},
        failure = reader_gone() => failure,
        Err(failure) = tell_changes(global, args.interval, follower) => failure,
    }
}

async fn tell_changes(
    global: &Global,
    interval: Duration,
    mut follower: Follower,
) -> Result<Infallible, Failure> {
    let mut lag = Lag::default();
    let mut known = None;
    let mut is_out = false;
    loop {
        match follower.next().await {
            Ok(Picture { locks, pace, .. }) => {
                lag.note(global, pace);
                if mem::take(&mut is_out) {
                    print(global, interval, &Event::of_server(Change::Back, None))?;
                }
                for event in differences(known.as_deref(), &locks) {
                    print(global, interval, &event)?;
                }
                known = Some(locks);
            }
            // A missing permission does not come back by itself.
            Err(error) if known.is_none() && error.is_final() => return Err(error.into()),
            Err(_) if is_out => {}
            Err(error) => {
                is_out = true;
                let event = Event::of_server(Change::Outage, Some(error.to_string()));
                print(global, interval, &event)?;
            }
        }
    }
}

/// The time of a scan of all keys, if it is longer than the interval.
#[derive(Default)]
struct Lag(Option<Duration>);

impl Lag {
    /// Prints a note when scans become too long, and when the time has doubled since the last note.
    fn note(&mut self, global: &Global, pace: Pace) {
        match (self.0, pace) {
            (Some(told), Pace::Known(now) | Pace::Scans(now)) if now < told * 2 => {}
            (_, Pace::Known(now) | Pace::Scans(now)) => {
                self.0 = Some(now);
                let now = rough(now);
                let text = format!(
                    "a scan of all keys takes {now}, to spare the server: changes of locks without waiters can \
                     appear that late"
                );
                note(global.json, &text);
            }
            (_, Pace::First | Pace::Whole) => self.0 = None,
        }
    }
}

/// Waits until no process reads the output any more. Without further changes, nothing else notices that.
async fn reader_gone() -> Failure {
    /// The longest time until it is noticed.
    const LOOK_AT_OUTPUT: Duration = Duration::from_millis(250);

    while !output::is_closed() {
        sleep(LOOK_AT_OUTPUT).await;
    }
    Failure::new(Exit::Success, "the output was closed")
}

fn print(global: &Global, interval: Duration, event: &Event) -> Result<(), Failure> {
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
