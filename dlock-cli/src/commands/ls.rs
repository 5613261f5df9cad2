//! `dlock ls`: lists the locks with a holder or waiters.

mod table;

use std::time::{Duration, SystemTime};

use clap::Args;
use dlock_admin::{LockInfo, view::LockView};

use self::table::Columns;
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    output,
    pages::{self, Wanted},
    progress::{self, SLOW, with_progress},
    text::rough,
};

/// Lists the locks that are held or have waiters
///
/// The list is printed in pages while it is read. A list of less than 500 locks has one page,
/// if it is read within a second. Each page is sorted by key.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LsArgs {
    /// Lists only the locks whose keys match this Redis pattern:
    /// `*` matches any text, `?` any character
    #[arg(verbatim_doc_comment)]
    pattern: Option<String>,
    /// Lists only the locks that a process with this text in its
    /// name holds; a handle works too
    #[arg(long, value_name = "PROCESS", verbatim_doc_comment)]
    holder: Option<String>,
    /// Lists only the locks that a process with this text in its
    /// name waits for; a handle works too
    #[arg(long, value_name = "PROCESS", verbatim_doc_comment)]
    waiter: Option<String>,
    /// Lists only the locks that are held for longer than this
    /// time, such as 5m
    #[arg(long, value_name = "DURATION", verbatim_doc_comment, value_parser = humantime::parse_duration)]
    held_longer: Option<Duration>,
    /// Lists only the locks with at least so many waiters
    #[arg(long, value_name = "NUMBER")]
    waiters_at_least: Option<usize>,
    /// Scans the keys at full speed instead of using at most 5 %
    /// of the server's time
    #[arg(long, verbatim_doc_comment)]
    fast: bool,
}

pub(crate) async fn run(global: &Global, args: LsArgs) -> Result<Exit, Failure> {
    let inspector = global.inspector().await?;
    if args.fast {
        inspector.lift_limit();
    }
    let mut printer = Printer::new(global, &args);
    let wanted = Wanted::Matching(args.pattern.clone());
    let look = pages::read(&*inspector, wanted, |page| printer.print(page));
    let advice = if args.fast { "" } else { SLOW };
    with_progress(global, &*inspector, advice, look).await?;
    if global.json {
        printer.list.end(&[])?;
    } else if printer.is_empty {
        let reading = global.reading(&*inspector).await;
        note(false, &format!("{} in {reading}", nothing(&args)));
    }
    Ok(Exit::Success)
}

fn nothing(args: &LsArgs) -> String {
    let mut text = match &args.pattern {
        Some(pattern) => format!("no locks match `{pattern}`"),
        None if args.holder.is_some() || args.held_longer.is_some() => {
            "no locks are held".to_owned()
        }
        None if args.waiter.is_some() || args.waiters_at_least.is_some() => {
            "no locks are waited for".to_owned()
        }
        None => "no locks are held or waited for".to_owned(),
    };
    let options = [
        ("holder", args.holder.clone()),
        ("waiter", args.waiter.clone()),
        ("held-longer", args.held_longer.map(rough)),
        (
            "waiters-at-least",
            args.waiters_at_least.map(|it| it.to_string()),
        ),
    ];
    let given = options
        .into_iter()
        .filter_map(|(name, value)| Some(format!("`--{name} {}`", value?)));
    let given = given.collect::<Vec<_>>().join(" and ");
    if !given.is_empty() {
        text = format!("{text} with {given}");
    }
    text
}

/// Prints each page as it comes.
struct Printer<'a> {
    global: &'a Global,
    args: &'a LsArgs,
    columns: Columns,
    list: output::List,
    is_empty: bool,
}

impl<'a> Printer<'a> {
    fn new(global: &'a Global, args: &'a LsArgs) -> Self {
        let is_colored = global.has_color(&std::io::stdout());
        Self {
            global,
            args,
            columns: Columns::new(is_colored, output::columns()),
            list: output::List::default(),
            is_empty: true,
        }
    }

    fn print(&mut self, page: &[LockInfo]) -> Result<(), Failure> {
        let now = SystemTime::now();
        let locks = page.iter().map(|lock| LockView::of(lock, now));
        let locks: Vec<_> = locks.filter(|lock| is_wanted(lock, self.args)).collect();
        if locks.is_empty() {
            return Ok(());
        }
        self.is_empty = false;
        if self.global.json {
            return self.list.add(&locks);
        }
        progress::clear(self.global);
        output::line(&self.columns.page(&locks))
    }
}

fn is_wanted(lock: &LockView, args: &LsArgs) -> bool {
    let is_of = |wanted: &str, label: Option<&String>, handle: Option<&String>| {
        let wanted = wanted.to_lowercase();
        label.is_some_and(|label| label.to_lowercase().contains(&wanted))
            || handle.is_some_and(|handle| *handle == wanted)
    };
    let is_held = |wanted: &String| {
        let mut holders = lock.holders.iter();
        holders.any(|it| is_of(wanted, it.label.as_ref(), it.handle.as_ref()))
    };
    let is_awaited = |wanted: &String| {
        let mut waiters = lock.waiters.iter();
        waiters.any(|it| is_of(wanted, it.label.as_ref(), Some(&it.handle)))
    };
    let is_held_longer = |limit: Duration| {
        let mut times = lock.holders.iter().filter_map(|it| it.held_ms);
        times.any(|held| Duration::from_millis(held) > limit)
    };
    args.holder.as_ref().is_none_or(is_held)
        && args.waiter.as_ref().is_none_or(is_awaited)
        && args.held_longer.is_none_or(is_held_longer)
        && args
            .waiters_at_least
            .is_none_or(|least| lock.waiter_count >= least)
}
