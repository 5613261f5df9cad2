//! The table of `dlock ls`, page by page.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, Width, presets};
use dlock_admin::view::{HolderView, LockView};

use crate::{
    fit::{Elide, fit},
    text::rough_ms,
};

/// The space after each column.
const SPACE: u16 = 2;

/// The number of columns whose texts are cut on a narrow terminal, which are the first ones: key, holder and function.
const CUT: usize = 3;

/// No text is cut to less: its parts would not tell it from others.
const NARROW: u16 = 12;

/// The columns of the pages so far. The first page has a header, and a later one if it has other columns.
pub(super) struct Columns {
    is_colored: bool,
    /// The width of the terminal. Without one, texts are whole: a program may read them.
    room: Option<u16>,
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
    pub(super) fn new(is_colored: bool, room: Option<u16>) -> Self {
        Self {
            is_colored,
            room,
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
        let titles = if before == Some(optional) {
            None
        } else {
            self.widths.clear();
            Some(titles(optional))
        };
        self.optional = Some(optional);
        let is_colored = self.is_colored;
        let table = |limits| {
            let mut table = empty(is_colored, titles.as_deref());
            table.add_rows(locks.iter().map(|lock| row(lock, optional, limits)));
            table
        };
        let mut shown = table([u16::MAX; CUT]);
        self.widen(&shown.column_max_content_widths());
        if let Some(limits) = self.cut() {
            shown = table(limits);
        }
        for (column, width) in shown.column_iter_mut().zip(&self.widths) {
            column.set_padding((0, SPACE));
            let width = Width::Fixed(width.saturating_add(SPACE));
            column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }
        shown.trim_fmt()
    }

    fn widen(&mut self, content: &[u16]) {
        self.widths.resize(content.len(), 0);
        for (width, content) in self.widths.iter_mut().zip(content) {
            *width = (*width).max(*content);
        }
    }

    /// Makes the widest texts narrower until a row fits in the terminal. Returns the widths of all texts if it had to.
    fn cut(&mut self) -> Option<[u16; CUT]> {
        let all = self
            .widths
            .iter()
            .map(|it| usize::from(it.saturating_add(SPACE)));
        let whole = all.sum::<usize>() - usize::from(SPACE);
        let excess = whole.saturating_sub(usize::from(self.room?));
        let texts = self.widths.first_chunk_mut::<CUT>()?;
        for _ in 0..excess {
            match texts.iter_mut().max() {
                Some(widest) if *widest > NARROW => *widest -= 1,
                _ => break,
            }
        }
        (excess > 0).then_some(*texts)
    }
}

fn empty(is_colored: bool, titles: Option<&[&'static str]>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if is_colored {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if let Some(titles) = titles {
        let title = |text: &&'static str| Cell::new(text).add_attribute(Attribute::Bold);
        table.set_header(titles.iter().map(title));
    }
    table
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

/// Returns the cells of a lock. Its first texts have these widths at most.
fn row(lock: &LockView, optional: Optional, [key, name, function]: [u16; CUT]) -> Vec<Cell> {
    let holder = lock.holder();
    let of_holder = |text: &dyn Fn(&HolderView) -> Option<String>| {
        let text = holder.and_then(text);
        Cell::new(text.unwrap_or_else(|| "-".to_owned()))
    };
    let ttl = |holder: &HolderView| Some(holder.ttl_ms.map_or_else(|| "none".to_owned(), rough_ms));
    let mut row = vec![
        Cell::new(fit(&lock.key, key, Elide::Middle)),
        of_holder(&|holder| Some(fit(holder.name(), name, Elide::Middle))),
        of_holder(&|holder| Some(fit(holder.function.as_deref()?, function, Elide::Start))),
        of_holder(&|holder| holder.held_ms.map(rough_ms)),
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use dlock_admin::{HolderInfo, LockInfo};

    use super::*;

    fn lock(key: &str, label: &str, function: &str) -> LockView {
        let now = SystemTime::now();
        let mut holder = HolderInfo::new(None, 0, now);
        (holder.label, holder.function) = (Some(label.to_owned()), Some(function.to_owned()));
        let mut lock = LockInfo::new(key);
        lock.add_holder(holder);
        LockView::of(&lock, now)
    }

    fn widest(page: &str) -> usize {
        page.lines()
            .map(textwrap::core::display_width)
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn rows_fit_in_the_terminal_with_both_ends_of_keys_and_holders() {
        let key = format!("tenant:{}:end", "x".repeat(501));
        let label = format!("billing-{}@host/4711", "y".repeat(40));
        let function = format!("{}::settle", "z".repeat(60));
        let long = [lock(&key, &label, &function), lock("中文:1", "a@b/1", "f")];
        for room in [64, 80, 132] {
            let mut columns = Columns::new(false, Some(room));
            let page = columns.page(&long);
            assert_eq!(widest(&page), usize::from(room), "{page}");
            assert_eq!(page.lines().count(), 3, "{page}");
            for part in ["tenant", ":end", "billin", "/4711", "::settle", "中文:1"] {
                assert!(page.contains(part), "no `{part}`:\n{page}");
            }
            // The next page has the same columns.
            let next = columns.page(&[lock("order:1", "c@d/2", "g")]);
            let place = |page: &str, text: &str| {
                let (before, _) = page.lines().last()?.split_once(text)?;
                Some(textwrap::core::display_width(before))
            };
            assert_eq!(
                place(&next, "c@d/2"),
                place(&page, "a@b/1"),
                "{page}\n{next}"
            );
        }
        let whole = Columns::new(false, None).page(&long);
        for text in [&key, &label, &function] {
            assert!(whole.contains(text), "no `{text}`:\n{whole}");
        }
        let short = Columns::new(false, Some(80)).page(&[lock("order:1", "c@d/2", "g")]);
        assert_eq!(
            short,
            Columns::new(false, None).page(&[lock("order:1", "c@d/2", "g")])
        );
    }

    #[test]
    fn a_terminal_that_is_too_narrow_for_any_row_leaves_parts_of_all_texts() {
        let page = Columns::new(false, Some(1)).page(&[lock(
            "order:1234567890",
            "billing@host-1/4711",
            "shop::orders::settle",
        )]);
        for part in ["order…567890", "billi…1/4711", "…ers::settle"] {
            assert!(page.contains(part), "no `{part}`:\n{page}");
        }
    }
}
