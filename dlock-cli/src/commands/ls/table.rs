//! The table of `dlock ls`, page by page.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, Width, presets};

use crate::{
    text::{printable, rough},
    view::{HolderView, LockView},
};

/// The space after each column.
const SPACE: u16 = 2;

/// The columns of the pages so far. The first page has a header, and a later one if it has other columns.
pub(super) struct Columns {
    is_colored: bool,
    optional: Option<Optional>,
    /// The columns are as wide as those of the pages before, or wider.
    widths: Vec<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Optional {
    /// For shared locks.
    holders: bool,
    /// For quorums.
    servers: bool,
}

impl Columns {
    pub(super) fn new(is_colored: bool) -> Self {
        Self {
            is_colored,
            optional: None,
            widths: Vec::new(),
        }
    }

    /// Returns the lines of the next page.
    pub(super) fn page(&mut self, locks: &[LockView]) -> String {
        let before = self.optional;
        let had = |has: fn(Optional) -> bool| before.is_some_and(has);
        let optional = Optional {
            holders: had(|it| it.holders) || locks.iter().any(LockView::is_shared),
            servers: had(|it| it.servers) || locks.iter().any(|lock| lock.servers > 1),
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if self.is_colored {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if before != Some(optional) {
            self.widths.clear();
            let title = |text| Cell::new(text).add_attribute(Attribute::Bold);
            table.set_header(titles(optional).into_iter().map(title));
        }
        self.optional = Some(optional);
        for lock in locks {
            table.add_row(row(lock, optional));
        }
        let content = table.column_max_content_widths();
        self.widths.resize(content.len(), 0);
        let columns = table.column_iter_mut().zip(content);
        for ((column, content), width) in columns.zip(&mut self.widths) {
            column.set_padding((0, SPACE));
            *width = (*width).max(content.saturating_add(SPACE));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
        table.trim_fmt()
    }
}

fn titles(optional: Optional) -> Vec<&'static str> {
    let mut titles = vec!["KEY", "HOLDER", "FUNCTION", "HELD", "TTL", "WAITERS"];
    if optional.holders {
        titles.push("HOLDERS");
    }
    if optional.servers {
        titles.push("SERVERS");
    }
    titles
}

fn row(lock: &LockView, optional: Optional) -> Vec<Cell> {
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
    if optional.holders {
        row.push(Cell::new(lock.holder_count).set_alignment(CellAlignment::Right));
    }
    if optional.servers {
        let count = format!("{} of {}", lock.held_at, lock.servers);
        row.push(Cell::new(count).set_alignment(CellAlignment::Right));
    }
    row
}
