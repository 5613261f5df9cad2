//! The table of locks.

use std::sync::Arc;

use dlock_admin::view::{HolderView, LockView};
use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span, Text},
    widgets::{Cell, Paragraph, Row, Table, TableState, Wrap},
};

use super::style::{ACCENT, ALARM, WARM, brief_ms, faded};
use crate::{
    commands::top::model::{Column, Model, longest_wait},
    fit::{Elide, fit},
    follow::{Pace, Seen},
    text::printable,
};

/// A narrower terminal has less space between columns, and no functions.
const WIDE: u16 = 110;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let rows = model.rows();
    let chosen = model.chosen_row();
    // Only what is seen is drawn: there may be hundreds of thousands.
    let visible = usize::from(area.height.saturating_sub(1)).max(1);
    let first = chosen.map_or(0, |row| (row + 1).saturating_sub(visible));
    let rows = &rows[first..rows.len().min(first + visible)];
    let columns = columns(area.width, rows);
    let spacing = spacing(area.width);
    let lines = rows.iter().map(|it| row(&it.lock, &columns, model));
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width));
    let table = Table::new(lines, widths)
        .header(header(&columns, model))
        .column_spacing(spacing)
        .row_highlight_style(
            Style::new()
                .bg(Color::Indexed(238))
                .add_modifier(Modifier::BOLD),
        )
        .highlight_symbol(" ")
        .highlight_spacing(ratatui::widgets::HighlightSpacing::Always);
    let mut state = TableState::new().with_selected(chosen.map(|row| row - first));
    frame.render_stateful_widget(table, area, &mut state);
    if rows.is_empty() && area.height > 2 {
        let text = match &model.picture {
            Some(picture) if !picture.locks.is_empty() => "no locks match the filter".to_owned(),
            Some(picture) if picture.pace != Pace::First => nothing(model),
            // No lock is known yet.
            _ => String::new(),
        };
        let below = Rect {
            y: area.y + 2,
            height: area.height - 2,
            ..area
        };
        let text = Paragraph::new(Line::from(text).dim());
        frame.render_widget(text.wrap(Wrap { trim: true }).centered(), below);
    }
}

/// Says that there are no locks, of what, and when that was so.
fn nothing(model: &Model) -> String {
    let namespace = printable(&model.namespace);
    let server = model.server.name().map(|it| format!(" of {it}"));
    let server = server.unwrap_or_default();
    let (are, age) = match (&model.outage, model.age) {
        (Some(_), age) => ("were", format!(" {age} s ago")),
        (None, 0..=1) => ("are", String::new()),
        (None, age) => ("are", format!(", read {age} s ago")),
    };
    format!("no locks {are} held or waited for in namespace {namespace}{server}{age}")
}

/// Returns the space between two columns.
fn spacing(width: u16) -> u16 {
    if width < WIDE { 1 } else { 2 }
}

/// Returns the columns that fit, with their widths. Only locks of annotated functions have a function.
fn columns(width: u16, rows: &[Arc<Seen>]) -> Vec<(Column, u16)> {
    // Times have seven columns, and the title of a sorted one has a mark.
    const NUMBERS: [(Column, u16); 4] = [
        (Column::Held, 7),
        (Column::Ttl, 7),
        (Column::Waiters, 7),
        (Column::Longest, 8),
    ];
    let has_function = |seen: &Arc<Seen>| {
        let holder = seen.lock.holder();
        holder.is_some_and(|it| it.function.is_some())
    };
    // Columns with text, and columns with numbers.
    let (names, numbers): (&[_], &[_]) = match width {
        WIDE.. if rows.iter().any(has_function) => (
            &[(Column::Key, 5), (Column::Holder, 5), (Column::Function, 4)],
            &NUMBERS,
        ),
        72.. => (&[(Column::Key, 5), (Column::Holder, 4)], &NUMBERS),
        50.. => (&[(Column::Key, 1)], &NUMBERS),
        _ => (&[(Column::Key, 1)], &NUMBERS[2..3]),
    };
    let count = u16::try_from(names.len() + numbers.len()).unwrap_or(u16::MAX);
    let spaces = (count - 1) * spacing(width) + 2;
    let taken = numbers.iter().map(|&(_, width)| width).sum::<u16>() + spaces;
    let names = shared(names, width.saturating_sub(taken), rows);
    names.into_iter().chain(numbers.iter().copied()).collect()
}

/// Divides the room by the shares of the columns. A column that needs more than its share gets what others do not need.
fn shared(names: &[(Column, u16)], room: u16, rows: &[Arc<Seen>]) -> Vec<(Column, u16)> {
    let shares: u16 = names.iter().map(|&(_, share)| share).sum();
    let names = names.iter().map(|&(column, share)| {
        let needs = rows.iter().map(|it| needs(&it.lock, column)).max();
        // A name can be longer than any terminal is wide.
        (column, room * share / shares, needs.unwrap_or(0).min(room))
    });
    let names: Vec<_> = names.collect();
    let unused = names
        .iter()
        .map(|(_, has, needs)| has.saturating_sub(*needs));
    let missing = names
        .iter()
        .map(|(_, has, needs)| needs.saturating_sub(*has));
    // What some lack and others can spare. The later columns get it first: the holder before the key.
    let moved = unused.sum::<u16>().min(missing.sum());
    let (mut to_give, mut to_take) = (moved, moved);
    let mut widths = Vec::new();
    for (column, has, needs) in names.into_iter().rev() {
        let given = needs.saturating_sub(has).min(to_give);
        let taken = has.saturating_sub(needs).min(to_take);
        (to_give, to_take) = (to_give - given, to_take - taken);
        widths.push((column, has + given - taken));
    }
    widths.reverse();
    widths
}

/// Returns the width of the whole text in a column.
fn needs(lock: &LockView, column: Column) -> u16 {
    let width = |text: &str| Span::raw(printable(text)).width();
    let holder = lock.holder();
    let width = match (column, holder) {
        (Column::Key, _) => width(&lock.key),
        (Column::Holder, Some(it)) => width(it.name()) + others(lock).len(),
        (Column::Function, Some(it)) => it.function.as_deref().map_or(0, width),
        _ => 0,
    };
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Returns the number of the other holders of a shared lock.
fn others(lock: &LockView) -> String {
    match lock.holder_count {
        0 | 1 => String::new(),
        count => format!(" +{}", count - 1),
    }
}

fn is_number(column: Column) -> bool {
    !matches!(column, Column::Key | Column::Holder | Column::Function)
}

fn header<'a>(columns: &[(Column, u16)], model: &Model) -> Row<'a> {
    let cells = columns.iter().map(|&(column, width)| {
        let name = column.name();
        if column != model.sort {
            return aligned(column, name.to_owned(), Style::new().dim());
        }
        let mark = if model.reversed { "▲" } else { "▼" };
        let text = if is_number(column) && name.len() + 1 > usize::from(width) {
            name.to_owned()
        } else {
            format!("{name}{mark}")
        };
        aligned(column, text, Style::new().fg(ACCENT).bold())
    });
    Row::new(cells)
}

fn row<'a>(lock: &LockView, columns: &[(Column, u16)], model: &Model) -> Row<'a> {
    let cells = columns.iter().map(|&(column, width)| {
        let (text, style) = cell(lock, column, width);
        aligned(column, text, faded(style, model))
    });
    Row::new(cells)
}

fn cell(lock: &LockView, column: Column, width: u16) -> (String, Style) {
    let plain = Style::new();
    let holder = lock.holder();
    match column {
        Column::Key => (fit(&lock.key, width, Elide::Middle), plain.bold()),
        Column::Holder => match holder {
            Some(it) if it.is_foreign() => (fit(it.name(), width, Elide::Middle), plain.fg(WARM)),
            Some(it) if lock.holder_count > 1 => {
                let others = others(lock);
                let room = width.saturating_sub(u16::try_from(others.len()).unwrap_or(width));
                let name = fit(it.name(), room, Elide::Middle);
                (format!("{}{others}", name.trim_end()), plain)
            }
            Some(it) => (fit(it.name(), width, Elide::Middle), plain),
            None => ("none".to_owned(), plain.dim()),
        },
        Column::Function => match holder.and_then(|it| it.function.as_ref()) {
            Some(function) => (fit(function, width, Elide::Start), plain.fg(Color::Blue)),
            None => (String::new(), plain),
        },
        Column::Held => {
            let held = holder.and_then(|it| it.held_ms);
            (held.map_or_else(String::new, brief_ms), plain)
        }
        Column::Ttl => ttl(holder),
        Column::Waiters => match lock.waiter_count {
            0 => ("–".to_owned(), plain.dim()),
            count => (count.to_string(), plain.fg(WARM)),
        },
        Column::Longest => match longest_wait(lock) {
            Some(wait) => (brief_ms(wait), plain.fg(WARM)),
            // None of the waiters is alive.
            None if !lock.waiters.is_empty() => ("dead".to_owned(), plain.fg(ALARM)),
            None => (String::new(), plain),
        },
    }
}

fn ttl(holder: Option<&HolderView>) -> (String, Style) {
    match holder.map(|it| it.ttl_ms) {
        Some(Some(ttl)) => (brief_ms(ttl), Style::new()),
        Some(None) => ("none".to_owned(), Style::new().fg(ALARM).bold()),
        None => (String::new(), Style::new()),
    }
}

fn aligned<'a>(column: Column, text: String, style: Style) -> Cell<'a> {
    let text = Text::styled(text, style);
    Cell::from(if is_number(column) {
        text.right_aligned()
    } else {
        text
    })
}
