//! The table of locks.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Text},
    widgets::{Cell, Row, Table, TableState},
};

use super::style::{ACCENT, ALARM, Elide, WARM, brief, faded, fit};
use crate::commands::top::{
    model::{Column, Model},
    picture::{Holder, Lock},
};

/// The space between two columns.
const SPACING: u16 = 2;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let rows = model.rows();
    let has_function = |lock: &&Lock| lock.holder.as_ref().is_some_and(|it| it.function.is_some());
    let columns = columns(area.width, rows.iter().any(has_function));
    let lines = rows.iter().map(|lock| row(lock, &columns, model));
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width));
    let table = Table::new(lines, widths)
        .header(header(&columns, model))
        .column_spacing(SPACING)
        .row_highlight_style(
            Style::new()
                .bg(Color::Indexed(238))
                .add_modifier(Modifier::BOLD),
        )
        .highlight_symbol(" ")
        .highlight_spacing(ratatui::widgets::HighlightSpacing::Always);
    let mut state = TableState::new().with_selected(model.chosen_row());
    frame.render_stateful_widget(table, area, &mut state);
    if rows.is_empty() && area.height > 2 {
        let text = match &model.picture {
            Some(picture) if !picture.locks.is_empty() => "no locks match the filter",
            Some(_) => "no locks are held or waited for",
            None => "",
        };
        let below = Rect {
            y: area.y + 2,
            height: 1,
            ..area
        };
        frame.render_widget(Line::from(text).dim().centered(), below);
    }
}

/// Returns the columns that fit, with their widths. Only locks of annotated functions have a function.
fn columns(width: u16, functions: bool) -> Vec<(Column, u16)> {
    const NUMBERS: [(Column, u16); 4] = [
        (Column::Held, 8),
        (Column::Ttl, 8),
        (Column::Waiters, 8),
        (Column::Longest, 8),
    ];
    // Columns with text, and columns with numbers.
    let (names, numbers): (&[_], &[_]) = match width {
        110.. if functions => (
            &[(Column::Key, 5), (Column::Holder, 5), (Column::Function, 4)],
            &NUMBERS,
        ),
        72.. => (&[(Column::Key, 5), (Column::Holder, 4)], &NUMBERS),
        50.. => (&[(Column::Key, 1)], &NUMBERS),
        _ => (&[(Column::Key, 1)], &NUMBERS[2..3]),
    };
    let shares: u16 = names.iter().map(|&(_, share)| share).sum();
    let count = u16::try_from(names.len() + numbers.len()).unwrap_or(u16::MAX);
    let taken = numbers.iter().map(|&(_, width)| width).sum::<u16>() + (count - 1) * SPACING + 2;
    let room = width.saturating_sub(taken);
    let names = names
        .iter()
        .map(|&(column, share)| (column, room * share / shares));
    names.chain(numbers.iter().copied()).collect()
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

fn row<'a>(lock: &Lock, columns: &[(Column, u16)], model: &Model) -> Row<'a> {
    let cells = columns.iter().map(|&(column, width)| {
        let (text, style) = cell(lock, column, width);
        aligned(column, text, faded(style, model))
    });
    Row::new(cells)
}

fn cell(lock: &Lock, column: Column, width: u16) -> (String, Style) {
    let plain = Style::new();
    let holder = lock.holder.as_ref();
    match column {
        Column::Key => (fit(&lock.key, width, Elide::End), plain.bold()),
        Column::Holder => match holder {
            Some(it) if it.handle.is_none() => (fit(&it.name, width, Elide::End), plain.fg(WARM)),
            Some(it) if lock.holder_count > 1 => {
                let others = format!(" +{}", lock.holder_count - 1);
                let room = width.saturating_sub(u16::try_from(others.len()).unwrap_or(width));
                let name = fit(&it.name, room, Elide::End);
                (format!("{}{others}", name.trim_end()), plain)
            }
            Some(it) => (fit(&it.name, width, Elide::End), plain),
            None => ("none".to_owned(), plain.dim()),
        },
        Column::Function => match holder.and_then(|it| it.function.as_ref()) {
            Some(function) => (fit(function, width, Elide::Start), plain.fg(Color::Blue)),
            None => (String::new(), plain),
        },
        Column::Held => {
            let held = holder.and_then(|it| it.held);
            (held.map_or_else(String::new, brief), plain)
        }
        Column::Ttl => ttl(holder),
        Column::Waiters => match lock.waiter_count {
            0 => ("–".to_owned(), plain.dim()),
            count => (count.to_string(), plain.fg(WARM)),
        },
        Column::Longest => match lock.longest_wait() {
            Some(wait) => (brief(wait), plain.fg(WARM)),
            // None of the waiters is alive.
            None if !lock.waiters.is_empty() => ("dead".to_owned(), plain.fg(ALARM)),
            None => (String::new(), plain),
        },
    }
}

fn ttl(holder: Option<&Holder>) -> (String, Style) {
    match holder.map(|it| it.ttl) {
        Some(Some(ttl)) => (brief(ttl), Style::new()),
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
