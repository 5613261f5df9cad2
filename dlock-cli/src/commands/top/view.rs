//! Draws the model.

mod details;
mod header;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::{
    Frame, Terminal,
    backend::TestBackend,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use super::model::{Mode, Model};
use crate::text::printable;

const ACCENT: Color = Color::Cyan;
const ALARM: Color = Color::LightRed;
const WARM: Color = Color::Yellow;

/// A terminal that is lower than this has room for locks only.
const LOW: u16 = 8;

/// The whole screen.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.height < LOW {
        let [state, table] = split(area, [Constraint::Length(1), Constraint::Fill(1)]);
        header::state(frame, state, model);
        table::draw(frame, table, model);
        return;
    }
    let details = if model.details {
        area.height * 2 / 5
    } else {
        0
    };
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
    if let Some(lock) = model.chosen_lock().filter(|_| model.details) {
        details::draw(frame, below, lock, model);
    }
    footer(frame, bottom, model);
    if model.mode == Mode::Help {
        help(frame, area);
    }
}

/// The same without what only a terminal can do, in as many lines as it takes.
pub(crate) fn text(model: &Model, width: u16) -> String {
    /// Nobody reads more, and a buffer has to be made for it.
    const MOST: usize = 5_000;
    let rows = model.rows().len().min(MOST);
    let height = u16::try_from(rows).unwrap_or(u16::MAX) + header::HEIGHT + 1;
    let backend = TestBackend::new(width, height);
    let mut terminal = Terminal::new(backend).expect("it is in memory");
    let drawn = terminal.draw(|frame| {
        let areas = [Constraint::Length(header::HEIGHT), Constraint::Fill(1)];
        let [top, rest] = split(frame.area(), areas);
        header::draw(frame, top, model);
        table::draw(frame, rest, model);
    });
    let buffer = drawn.expect("it is in memory").buffer;
    let lines = buffer.content().chunks(usize::from(width));
    lines
        .map(|line| {
            let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned() + "\n"
        })
        .collect()
}

fn split<const N: usize>(area: Rect, parts: [Constraint; N]) -> [Rect; N] {
    Layout::vertical(parts).areas(area)
}

fn footer(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    if model.mode == Mode::Filter {
        let text = format!(" /{}", printable(&model.filter));
        let line = Line::from(vec![
            text.fg(WARM),
            "▏".fg(WARM),
            "  Enter keeps, Esc clears".dim(),
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
        ("p", if model.paused { "go on" } else { "pause" }),
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
    const KEYS: [(&str, &str); 9] = [
        (
            "↑ ↓ j k",
            "choose a lock; PgUp, PgDn, Home and End go further",
        ),
        ("Enter", "its process and its waiters, and back"),
        (
            "/",
            "show only locks whose key, holder or function has a text in it",
        ),
        (
            "s S",
            "sort by the next or the previous column; → and ← do the same",
        ),
        ("r", "the other way round"),
        ("p, space", "hold the picture still"),
        ("Esc", "close what is open, then forget the filter"),
        ("?", "this"),
        ("q, Ctrl-C", "quit"),
    ];
    let width = 76.min(area.width);
    let height = 11.min(area.height);
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

/// What is no longer sure is grey.
fn faded(style: Style, model: &Model) -> Style {
    if model.outage.is_some() {
        Style::new()
            .fg(Color::DarkGray)
            .remove_modifier(Modifier::BOLD)
    } else {
        style
    }
}

/// At which end of a text something is left out.
#[derive(Clone, Copy)]
enum Elide {
    /// The end of a function's path says which one it is.
    Start,
    End,
}

/// `text` in so many columns of the terminal, without anything that drives it.
fn fit(text: &str, width: u16, elide: Elide) -> String {
    let text = printable(text);
    let width = usize::from(width);
    if Span::raw(text.as_ref()).width() <= width {
        return text.into_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut takes = |c: &char| {
        let columns = Span::raw(c.to_string()).width();
        let fits = columns <= left;
        left = left.saturating_sub(if fits { columns } else { left });
        fits
    };
    match elide {
        _ if width == 0 => String::new(),
        Elide::End => text.chars().take_while(&mut takes).chain(['…']).collect(),
        Elide::Start => {
            let kept: Vec<_> = text.chars().rev().take_while(&mut takes).collect();
            ['…'].into_iter().chain(kept.into_iter().rev()).collect()
        }
    }
}

/// A duration in seven columns at the most.
fn brief(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        10..100 => format!("{seconds} s"),
        100..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
