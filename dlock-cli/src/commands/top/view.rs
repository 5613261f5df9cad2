//! Draws the model.

mod details;
mod header;
mod style;
mod table;
#[cfg(test)]
mod tests;

use ratatui::{
    Frame, Terminal,
    backend::TestBackend,
    layout::{Constraint, Rect},
    style::{Color, Stylize},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use self::style::{ACCENT, WARM, split};
use super::model::{Mode, Model};
use crate::text::printable;

/// A terminal with fewer rows shows only the locks.
const LOW: u16 = 8;

/// Draws the whole screen.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.height < LOW {
        let [state, table] = split(area, [Constraint::Length(1), Constraint::Fill(1)]);
        header::state(frame, state, model);
        table::draw(frame, table, model);
        return;
    }
    let chosen = model.chosen_lock().filter(|_| model.details);
    let details = chosen.map_or(0, |lock| details::height(area, lock));
    let [top, middle, below, bottom] = split(
        area,
        [
            Constraint::Length(header::HEIGHT),
            Constraint::Fill(1),
            Constraint::Length(details),
            Constraint::Length(1),
        ],
    );
    header::draw(frame, top, model);
    table::draw(frame, middle, model);
    if let Some(lock) = chosen {
        details::draw(frame, below, lock, model);
    }
    footer(frame, bottom, model);
    if model.mode == Mode::Help {
        help(frame, area);
    }
}

/// Formats the screen as text, with as many lines as needed.
pub(crate) fn text(model: &Model, width: u16) -> String {
    /// The limit of lines, each of which needs memory.
    const MOST: usize = 5_000;
    let rows = model.rows().len().min(MOST);
    let height = u16::try_from(rows).unwrap_or(u16::MAX) + header::HEIGHT + 1;
    let backend = TestBackend::new(width, height);
    let mut terminal = Terminal::new(backend).expect("drawing in memory cannot fail");
    let drawn = terminal.draw(|frame| {
        let areas = [Constraint::Length(header::HEIGHT), Constraint::Fill(1)];
        let [top, rest] = split(frame.area(), areas);
        header::draw(frame, top, model);
        table::draw(frame, rest, model);
    });
    let buffer = drawn.expect("drawing in memory cannot fail").buffer;
    let lines = buffer.content().chunks(usize::from(width));
    lines
        .map(|line| {
            let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned() + "\n"
        })
        .collect()
}

fn footer(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    if model.mode == Mode::Filter {
        let text = format!(" /{}", printable(&model.filter));
        let line = Line::from(vec![
            text.fg(WARM),
            "▏".fg(WARM),
            "  Enter: apply, Esc: clear".dim(),
        ]);
        frame.render_widget(line, area);
        return;
    }
    let keys = [
        ("q", "quit"),
        ("/", "filter"),
        ("s", "sort"),
        ("r", "reverse"),
        ("Enter", "details"),
        ("p", if model.paused { "resume" } else { "pause" }),
        ("?", "help"),
    ];
    let mut spans = Vec::new();
    if !model.filter.is_empty() {
        let filter = format!(" /{} ", printable(&model.filter));
        spans.push(filter.fg(Color::Black).bg(WARM));
    }
    for (key, what) in keys {
        spans.extend([
            format!(" {key} ").fg(ACCENT).bold(),
            format!("{what} ").dim(),
        ]);
    }
    frame.render_widget(Line::from(spans), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    const KEYS: [(&str, &str); 10] = [
        ("↑ ↓ j k", "select a lock; also PgUp, PgDn, Home and End"),
        ("Enter", "show or hide the details of the selected lock"),
        ("/", "filter the locks by key, holder, waiter or function"),
        (
            "s S",
            "sort by the next or the previous column; also → and ←",
        ),
        ("r", "reverse the order"),
        ("p, space", "pause or resume"),
        ("Esc", "close the details or this help, or clear the filter"),
        ("?", "show this help"),
        ("Ctrl-Z", "suspend; `fg` returns to the screen"),
        ("q, Ctrl-C", "quit"),
    ];
    let width = 76.min(area.width);
    let height = 12.min(area.height);
    let at = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let lines = KEYS.map(|(key, what)| {
        Line::from(vec![
            format!(" {key:<11}").fg(ACCENT).bold(),
            Span::raw(what),
        ])
    });
    let block = Block::bordered().title(" Keys ").border_style(ACCENT);
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), at);
}
