//! `dlock watch`: what happens to locks, line by line, until it is interrupted.
//!
//! It looks at all locks now and then, and at once when one goes from hand to hand, and tells what is
//! different. What begins and ends between two looks is not seen.

mod difference;

use std::time::{Duration, SystemTime};

use clap::Args;
use dlock::{
    StoreError,
    admin::{HandOffs, Inspector},
};
use jiff::Zoned;
use tokio::time::{Instant, sleep_until};

use self::difference::{Change, Event, differences};
use crate::{
    cli::Global,
    exit::{Exit, Failure, note},
    output,
    text::{printable, rough},
    view::{HolderView, LockView, moment},
};

/// Shows what happens to locks as it happens, until it is interrupted
///
/// The first lines say who holds what at the beginning. What begins and ends between two
/// looks is not seen. When the server does not answer it says so, and goes on when it does.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct WatchArgs {
    /// Only locks whose keys match, as in Redis: `*` stands for
    /// any text, `?` for any character
    #[arg(verbatim_doc_comment)]
    pattern: Option<String>,
    /// How long to wait between two looks
    #[arg(short, long, value_name = "DURATION", value_parser = parse_interval, default_value = "1s")]
    interval: Duration,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);
    if !bounds.contains(&interval) {
        return Err("it must be between 10ms and 24h".to_owned());
    }
    Ok(interval)
}

pub(crate) async fn run(global: &Global, args: WatchArgs) -> Result<Exit, Failure> {
    let inspector = Inspector::connect(global.config()).await?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(Exit::Success)
        }
        failure = watch(global, &args, &inspector) => Err(failure),
    }
}

/// Looks for ever, or until there is no use in it.
async fn watch(global: &Global, args: &WatchArgs, inspector: &Inspector) -> Failure {
    let mut known = Vec::new();
    let mut is_first = true;
    let mut is_out = false;
    let (mut hand_offs, mut may_listen) = (None, true);
    loop {
        let began = Instant::now();
        // Before the look, so that nothing happens between the two.
        if hand_offs.is_none() && may_listen {
            match inspector.hand_offs().await {
                Ok(listened) => hand_offs = Some(listened),
                // A user who is not allowed to listen finds them at the next look.
                Err(error) => may_listen = !error.is_final(),
            }
        }
        let found = look(inspector, args).await;
        let told = match found {
            Ok(locks) => {
                let back = is_out.then(|| Event::of_server(Change::Back, None));
                let events = differences(&known, &locks, is_first);
                known = locks;
                (is_first, is_out) = (false, false);
                back.into_iter()
                    .chain(events)
                    .try_for_each(|event| tell(global, &event))
            }
            // Nothing can return that was never allowed.
            Err(error) if is_first && error.is_final() => return error.into(),
            Err(_) if is_out => Ok(()),
            Err(error) => {
                is_out = true;
                let event = Event::of_server(Change::Outage, Some(error.to_string()));
                tell(global, &event)
            }
        };
        if let Err(failure) = told {
            return failure;
        }
        // Looking at a great many locks must not become all that the server does.
        let took = began.elapsed();
        let soonest = Instant::now() + (took * 9).max(args.interval / 10);
        let latest = soonest.max(began + args.interval);
        if let Err(failure) = pause(&mut hand_offs, soonest, latest).await {
            return failure;
        }
    }
}

async fn look(inspector: &Inspector, args: &WatchArgs) -> Result<Vec<LockView>, StoreError> {
    let locks = inspector.locks(args.pattern.as_deref()).await?;
    let now = SystemTime::now();
    Ok(locks.iter().map(|lock| LockView::of(lock, now)).collect())
}

/// Waits for a hand-off, but until `soonest` in any case, and until `latest` at most.
async fn pause(
    hand_offs: &mut Option<HandOffs>,
    soonest: Instant,
    latest: Instant,
) -> Result<(), Failure> {
    /// How long it may take to notice that nobody reads any more.
    const LOOK_AT_OUTPUT: Duration = Duration::from_millis(250);

    let next = async {
        match hand_offs {
            Some(it) => it.next().await.is_some(),
            None => std::future::pending().await,
        }
    };
    let reader_gone = async {
        while !output::is_closed() {
            tokio::time::sleep(LOOK_AT_OUTPUT).await;
        }
    };
    tokio::select! {
        biased;
        () = reader_gone => {
            return Err(Failure::new(Exit::Success, "nobody reads the output"));
        }
        is_there = next => if !is_there {
            // The connection is gone: there is a new one at the next look.
            *hand_offs = None;
        },
        () = sleep_until(latest) => {}
    }
    sleep_until(soonest).await;
    Ok(())
}

fn tell(global: &Global, event: &Event) -> Result<(), Failure> {
    if global.json {
        return output::json_line(event);
    }
    match event.change {
        Change::Outage => {
            let message = event.message.as_deref().unwrap_or_default();
            note(false, &format!("{message}; watching for its return"));
            Ok(())
        }
        Change::Back => {
            note(false, "the server answers again");
            Ok(())
        }
        _ => output::line(&words(event)),
    }
}

/// An event in one line.
fn words(event: &Event) -> String {
    let time = Zoned::now().strftime("%H:%M:%S%.3f");
    let key = printable(event.key.as_deref().unwrap_or_default());
    let who = match (&event.holder, &event.waiter) {
        (_, Some(waiter)) => waiter.name(),
        (Some(holder), None) => holder.name(),
        (None, None) => String::new(),
    };
    let function = event.holder.as_ref().and_then(|it| it.function.as_deref());
    let function = function.map(|it| format!(" in {}", printable(it)));
    let held = event.holder.as_ref().and_then(HolderView::held);
    let held = match event.change {
        Change::Released | Change::Held => held.map(|it| format!(", for {}", rough(it))),
        _ => None,
    };
    let (function, held) = (function.unwrap_or_default(), held.unwrap_or_default());
    format!(
        "{time}  {:<9}  {key}  {who}{function}{held}",
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
            waiters: None,
            message: None,
        }
    }
}
