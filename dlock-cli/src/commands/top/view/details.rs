//! The details of one lock: its holders and its waiters.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Style, Stylize},
    text::{Line, Span, Text},
    widgets::{Block, Borders},
};

use super::style::{ACCENT, ALARM, Elide, WARM, brief, faded, fit};
use crate::commands::top::{
    model::Model,
    picture::{Holder, Lock, Process, Waiter},
};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, lock: &Lock, model: &Model) {
    let title = format!(
        " {} ",
        fit(&lock.key, area.width.saturating_sub(4), Elide::End)
    );
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(faded(ACCENT.into(), model))
        .title(Span::styled(title, faded(Style::new().bold(), model)));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)])
        .spacing(2)
        .areas(inside);
    frame.render_widget(holder(lock, left), left);
    frame.render_widget(waiters(lock, right), right);
}

fn holder(lock: &Lock, area: Rect) -> Text<'static> {
    let mut lines = Vec::new();
    let mut field = |name: &str, value: &str| {
        let room = area.width.saturating_sub(14);
        let value = fit(value, room, Elide::End);
        lines.push(Line::from(vec![
            format!(" {name:<12} ").dim(),
            Span::raw(value),
        ]));
    };
    match &lock.holder {
        Some(it) if lock.holder_count > 1 => {
            field("shared by", &lock.holder_count.to_string());
            of_sharers(lock, usize::from(area.height), &mut field);
            field("fence", &it.fence.to_string());
        }
        Some(it) => of_holder(it, &mut field),
        None => field("holder", "none"),
    }
    if lock.servers > 1 {
        field(
            "held at",
            &format!("{} of {} servers", lock.held_at, lock.servers),
        );
    }
    field("last fence", &lock.last_fence.to_string());
    lines.into()
}

/// Shows as many holders as fit, each in one line.
fn of_sharers(lock: &Lock, height: usize, field: &mut impl FnMut(&str, &str)) {
    // The lines of their number, the fences and the rest.
    let shown = height.saturating_sub(4).clamp(1, lock.others.len() + 1);
    for holder in lock.holders().take(shown) {
        let ttl = holder.ttl.map_or_else(|| "none".to_owned(), brief);
        field("holder", &format!("{}, TTL left {ttl}", holder.name));
    }
    if lock.holder_count > shown {
        field("", &format!("and {} more", lock.holder_count - shown));
    }
}

fn of_holder(holder: &Holder, field: &mut impl FnMut(&str, &str)) {
    field("holder", &holder.name);
    if let Some(function) = &holder.function {
        field("function", function);
    }
    if let Some(held) = holder.held {
        field("held for", &brief(held));
    }
    field(
        "TTL left",
        &holder
            .ttl
            .map_or_else(|| "none: never expires".to_owned(), brief),
    );
    if let Some(process) = &holder.process {
        of_process(process, field);
    }
    if let Some(handle) = &holder.handle {
        field("fence", &holder.fence.to_string());
        field("handle", handle);
    }
}

fn of_process(process: &Process, field: &mut impl FnMut(&str, &str)) {
    let Process {
        application,
        host,
        pid,
        started,
        version,
    } = process;
    let application = application.as_deref().unwrap_or("unnamed application");
    field("process", &format!("{application}, pid {pid} on {host}"));
    field("running", &format!("since {started}, dlock {version}"));
}

fn waiters(lock: &Lock, area: Rect) -> Text<'static> {
    if lock.waiters.is_empty() {
        return Text::from(Line::from("no waiters").dim());
    }
    let mut lines =
        vec![Line::from(format!("{} waiting, next one first", lock.waiter_count)).dim()];
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

fn line(place: usize, waiter: &Waiter, width: u16) -> Line<'static> {
    let wait = if waiter.is_alive {
        format!("{:>8}", brief(waiter.waiting)).fg(WARM)
    } else {
        "    dead".fg(ALARM)
    };
    let name = match &waiter.wish {
        Some(wish) => format!("{} ({wish})", waiter.name),
        None => waiter.name.clone(),
    };
    let name = fit(&name, width.saturating_sub(16), Elide::End);
    Line::from(vec![
        format!("{place:>4} ").dim(),
        wait,
        Span::raw("  "),
        Span::raw(name),
    ])
}
