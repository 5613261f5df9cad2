//! The details of one lock: its holders and its waiters, side by side if both fit.

use dlock_admin::view::{HolderView, LockView, ProcessView, WaiterView};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Style, Stylize},
    text::{Line, Span, Text},
    widgets::{Block, Borders},
};

use super::style::{ACCENT, ALARM, WARM, brief_ms, faded, split, wrapped};
use crate::{
    commands::top::model::Model,
    fit::{Elide, fit},
    text::{printable, wish},
};

/// The width of the names of fields, with the space around them.
const NAMES: u16 = 14;

/// The width of a waiter's line before its name.
const PLACES: u16 = 15;

/// The space between the two halves.
const SPACING: u16 = 2;

/// The fewest lines for waiters, if there are so many.
const LEAST: u16 = 3;

/// Returns the height of the details on a screen.
pub(super) fn height(screen: Rect, lock: &LockView) -> u16 {
    if halves(lock, screen.width).is_some() {
        return screen.height * 2 / 5;
    }
    let fields = fields(lock, screen.width, usize::MAX).len();
    let lines = fields + waiter_lines(lock) + 1;
    u16::try_from(lines)
        .unwrap_or(u16::MAX)
        .min(screen.height / 2)
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, lock: &LockView, model: &Model) {
    let title = format!(
        " {} ",
        fit(&lock.key, area.width.saturating_sub(4), Elide::Middle)
    );
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(faded(ACCENT.into(), model))
        .title(Span::styled(title, faded(Style::new().bold(), model)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [holder, queue] = if let Some(widths) = halves(lock, inside.width) {
        let widths = widths.map(Constraint::Length);
        Layout::horizontal(widths).spacing(SPACING).areas(inside)
    } else {
        let waiters = u16::try_from(waiter_lines(lock)).unwrap_or(u16::MAX);
        let fields = fields(lock, inside.width, usize::MAX).len();
        let fields = u16::try_from(fields).unwrap_or(u16::MAX);
        let most = inside.height.saturating_sub(waiters.min(LEAST));
        let height = Constraint::Length(fields.min(most));
        split(inside, [height, Constraint::Fill(1)])
    };
    let lines = fields(lock, holder.width, usize::from(holder.height));
    frame.render_widget(Text::from(lines), holder);
    frame.render_widget(waiters(lock, queue), queue);
}

/// Returns the widths of both halves, if everything fits in them.
fn halves(lock: &LockView, width: u16) -> Option<[u16; 2]> {
    let texts = texts(lock, usize::MAX);
    let values = texts.iter().map(|(_, value)| Span::raw(value).width());
    let left = NAMES.checked_add(u16::try_from(values.max().unwrap_or(0)).ok()?)?;
    let names = lock.waiters.iter().map(|it| Span::raw(name(it)).width());
    // The number of waiters, or that there are none.
    let right = PLACES.checked_add(u16::try_from(names.max().unwrap_or(0).max(13)).ok()?)?;
    let room = width.checked_sub(SPACING)?;
    let most = room.checked_sub(right).filter(|most| left <= *most)?;
    let left = (room / 2).clamp(left, most);
    Some([left, room - left])
}

/// Returns the names and the values of what is known about the lock and its holders.
fn texts(lock: &LockView, height: usize) -> Vec<(&'static str, String)> {
    let mut texts = Vec::new();
    let last = format!(
        "last token {}",
        lock.last_token.as_deref().unwrap_or("none")
    );
    match lock.holder() {
        Some(it) if lock.holder_count > 1 => {
            texts.push(("shared by", lock.holder_count.to_string()));
            of_sharers(lock, height, &mut texts);
            texts.push(("token", with_last(it, &last)));
        }
        Some(it) => of_holder(it, &last, &mut texts),
        None => texts.push(("holder", format!("none, {last}"))),
    }
    if lock.servers > 1 {
        let held = format!("{} of {} servers", lock.held_at, lock.servers);
        texts.push(("held at", held));
    }
    texts
}

/// Returns the lines of the fields. A long value takes several lines.
fn fields(lock: &LockView, width: u16, height: usize) -> Vec<Line<'static>> {
    let mut texts = texts(lock, height);
    let in_title = usize::from(width.saturating_sub(4));
    if Span::raw(printable(&lock.key)).width() > in_title {
        texts.insert(0, ("key", lock.key.clone()));
    }
    let mut lines = Vec::new();
    for (mut name, value) in texts {
        for part in wrapped(&value, width.saturating_sub(NAMES)) {
            let named = format!(" {name:<12} ").dim();
            lines.push(Line::from(vec![named, Span::raw(part)]));
            name = "";
        }
    }
    lines
}

/// Adds as many holders as fit, each in one line.
fn of_sharers(lock: &LockView, height: usize, texts: &mut Vec<(&'static str, String)>) {
    // The lines of their number, the tokens and the rest.
    let shown = height.saturating_sub(3).clamp(1, lock.holders.len());
    for holder in lock.holders.iter().take(shown) {
        let ttl = holder.ttl_ms.map_or_else(|| "none".to_owned(), brief_ms);
        texts.push(("holder", format!("{}, TTL left {ttl}", holder.name())));
    }
    if lock.holder_count > shown {
        texts.push(("", format!("and {} more", lock.holder_count - shown)));
    }
}

fn of_holder(holder: &HolderView, last: &str, texts: &mut Vec<(&'static str, String)>) {
    texts.push(("holder", holder.name().to_owned()));
    if let Some(function) = &holder.function {
        texts.push(("function", function.clone()));
    }
    let ttl = holder.ttl_ms;
    let ttl = ttl.map_or_else(|| "none: never expires".to_owned(), brief_ms);
    texts.push(match holder.held_ms {
        Some(held) => ("held for", format!("{}, TTL left {ttl}", brief_ms(held))),
        None => ("TTL left", ttl),
    });
    if let Some(process) = &holder.process {
        of_process(process, texts);
    }
    texts.push(("token", with_last(holder, last)));
    if let Some(handle) = &holder.handle {
        texts.push(("handle", handle.clone()));
    }
}

fn with_last(holder: &HolderView, last: &str) -> String {
    let token = holder.token.as_deref().unwrap_or("none");
    format!("{token}, {last}")
}

fn of_process(process: &ProcessView, texts: &mut Vec<(&'static str, String)>) {
    let ProcessView {
        application,
        host,
        pid,
        started,
        version,
        ..
    } = process;
    let application = application.as_deref().unwrap_or("unnamed application");
    texts.push(("process", format!("{application}, pid {pid} on {host}")));
    texts.push(("running", format!("since {started}, dlock {version}")));
}

/// Returns the number of lines for all waiters that are listed.
fn waiter_lines(lock: &LockView) -> usize {
    let unlisted = lock.waiter_count > lock.waiters.len();
    1 + lock.waiters.len() + usize::from(unlisted)
}

fn waiters(lock: &LockView, area: Rect) -> Text<'static> {
    if lock.waiters.is_empty() {
        return Text::from(Line::from(" no waiters").dim());
    }
    let mut lines =
        vec![Line::from(format!(" {} waiting, next one first", lock.waiter_count)).dim()];
    let room = usize::from(area.height).saturating_sub(1);
    let all_fit = lock.waiter_count <= room;
    let shown = if all_fit {
        room
    } else {
        room.saturating_sub(1)
    };
    let shown = shown.min(lock.waiters.len());
    for (place, waiter) in lock.waiters.iter().take(shown).enumerate() {
        lines.push(line(place + 1, waiter, area.width));
    }
    if !all_fit {
        lines.push(Line::from(format!("     and {} more", lock.waiter_count - shown)).dim());
    }
    lines.into()
}

/// Returns the name of a waiter and what it wants.
fn name(waiter: &WaiterView) -> String {
    match wish(waiter.mode, waiter.permits) {
        Some(wish) => format!("{} ({wish})", waiter.name()),
        None => waiter.name().to_owned(),
    }
}

fn line(place: usize, waiter: &WaiterView, width: u16) -> Line<'static> {
    let wait = if waiter.is_alive {
        format!("{:>8}", brief_ms(waiter.waiting_ms)).fg(WARM)
    } else {
        "    dead".fg(ALARM)
    };
    let name = fit(&name(waiter), width.saturating_sub(PLACES), Elide::Middle);
    Line::from(vec![
        format!("{place:>4} ").dim(),
        wait,
        Span::raw("  "),
        Span::raw(name),
    ])
}
