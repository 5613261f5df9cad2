//! `dlock ls`: lists the locks with a holder or waiters.

use std::time::SystemTime;

use clap::Args;
use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};

use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    output,
    progress::{SLOW, with_progress},
    text::{printable, rough},
    view::{HolderView, LockView},
};

/// Lists the locks that are held or have waiters
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Lists only the locks whose keys match this Redis pattern:
    /// `*` matches any text, `?` any character
    #[arg(verbatim_doc_comment)]
    pattern: Option<String>,
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
    let look = inspector.locks(args.pattern.as_deref());
    let advice = if args.fast { "" } else { SLOW };
    let locks = with_progress(global, &*inspector, advice, look).await?;
    let now = SystemTime::now();
    let locks: Vec<_> = locks.iter().map(|lock| LockView::of(lock, now)).collect();
    if global.json {
        output::document(&locks)?;
    } else if locks.is_empty() {
        note(false, &nothing(args.pattern.as_deref()));
    } else {
        let colored = global.has_color(&std::io::stdout());
        output::line(&table(&locks, colored))?;
    }
    Ok(Exit::Success)
}

fn nothing(pattern: Option<&str>) -> String {
    match pattern {
        Some(pattern) => format!("no locks match `{pattern}`"),
        None => "no locks are held or waited for".to_owned(),
    }
}

fn table(locks: &[LockView], colored: bool) -> String {
    // The column is for quorums only.
    let counts_servers = locks.iter().any(|lock| lock.servers > 1);
    // The column is for shared locks only.
    let counts_holders = locks.iter().any(LockView::is_shared);
    let mut titles = vec!["KEY", "HOLDER", "FUNCTION", "HELD", "TTL", "WAITERS"];
    if counts_holders {
        titles.push("HOLDERS");
    }
    if counts_servers {
        titles.push("SERVERS");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if colored {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let title = |text| Cell::new(text).add_attribute(Attribute::Bold);
    table.set_header(titles.into_iter().map(title));
    for lock in locks {
        table.add_row(row(lock, counts_holders, counts_servers));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

fn row(lock: &LockView, counts_holders: bool, counts_servers: bool) -> Vec<Cell> {
    let holder = lock.holder.as_ref();
    let of_holder = |text: &dyn Fn(&HolderView) -> Option<String>| {
        let text = holder.and_then(text);
        Cell::new(text.unwrap_or_else(|| "-".to_owned()))
    };
    let ttl = |holder: &HolderView| Some(holder.ttl().map_or_else(|| "none".to_owned(), rough));
    let function = |holder: &HolderView| Some(printable(holder.function.as_deref()?).into_owned());
    let mut row = vec![
        Cell::new(printable(&lock.key)),
        of_holder(&|holder| Some(holder.name())),
        of_holder(&function),
        of_holder(&|holder| holder.held().map(rough)),
        of_holder(&ttl),
        Cell::new(lock.waiter_count).set_alignment(CellAlignment::Right),
    ];
    if counts_holders {
        row.push(Cell::new(lock.holder_count).set_alignment(CellAlignment::Right));
    }
    if counts_servers {
        let count = format!("{} of {}", lock.held_at, lock.servers);
        row.push(Cell::new(count).set_alignment(CellAlignment::Right));
    }
    row
}
