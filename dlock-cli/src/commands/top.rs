//! `dlock top`: shows the holders and waiters of all locks, live.

mod model;
mod rates;
mod screen;
mod source;
mod view;

use std::{
    io::{IsTerminal, stderr, stdout},
    time::Duration,
};

use clap::Args;
use dlock_admin::view::LockView;
use dlock_admin_web::Server;
use serde_json::json;

use self::model::{Message, Model};
use crate::{
    exit::{Exit, Failure},
    follow,
    global::Global,
    output,
    pages::{self, Wanted},
    progress::with_progress,
};

/// The width of the output of `--once` if it is not a terminal.
const WIDTH: u16 = 120;

/// Shows all locks with their holders and waiters, live
///
/// It needs a terminal. Press `?` for a list of keys. The screen is read-only.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TopArgs {
    /// The time between two readings, 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Prints the locks once and exits; implied by `--json`
    #[arg(long)]
    once: bool,
}

pub(crate) async fn run(global: &Global, args: &TopArgs) -> Result<Exit, Failure> {
    let once = args.once || global.json;
    if !once && !stdout().is_terminal() {
        let message =
            "the output is not a terminal: use `dlock top --once` to print the locks once";
        return Err(Failure::new(Exit::Usage, message));
    }
    if !once && global.verbose > 0 && stderr().is_terminal() {
        let message =
            "`--verbose` would overwrite the screen: redirect the standard error to a file";
        return Err(Failure::new(Exit::Usage, message));
    }
    // Connect before the terminal changes, so that errors are printed as by other commands.
    let inspector = global.inspector().await?;
    if !once {
        // It goes on reading, so it may begin with haste. A command that prints and exits may be repeated in a loop.
        inspector.begin();
        return screen::run(global, args.interval, inspector).await;
    }
    let server = Server::default().after(&inspector.servers().await);
    if global.json {
        let mut list = output::List::in_field("locks");
        let read = pages::read(&*inspector, Wanted::Everything, |page| {
            let now = server.now();
            let locks: Vec<_> = page.iter().map(|it| LockView::of(it, now)).collect();
            list.add(&locks)
        });
        let seen = read.await?;
        list.end(&[
            ("server", json!(server.name())),
            ("version", json!(server.version())),
            ("namespace", json!(global.namespace_in_use())),
            ("processes", json!(seen.process_count)),
        ])?;
    } else {
        // The longest wait is shown first, so none is shown before the end.
        let look = follow::read_once(&*inspector, &server);
        let advice = "; slow to spare the server";
        let picture = with_progress(global, &*inspector, advice, look).await?;
        let mut model = Model::new(&global.namespace_in_use(), server);
        let _step = model.update(Message::Picture(picture));
        output::text(&view::text(&model, output::columns().unwrap_or(WIDTH)))?;
    }
    Ok(Exit::Success)
}

/// Reads the time between two readings.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("must be from 100ms to 1h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_bounded() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        for text in ["0s", "99ms", "2h", "1", ""] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
