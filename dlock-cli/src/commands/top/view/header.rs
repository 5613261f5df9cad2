//! The header: the server, the totals, and the current activity.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Style, Stylize},
    text::{Line, Span},
    widgets::Sparkline,
};

use super::style::{ACCENT, ALARM, WARM, brief, brief_ms, faded, split};
use crate::{
    commands::top::model::{Model, longest_wait},
    fit::{Elide, fit},
    follow::Pace,
};

pub(super) const HEIGHT: u16 = 4;

/// A narrower terminal does not show the chart of grants.
const NARROW: u16 = 90;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let [title, middle, _] = split(
        area,
        [
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Length(1),
        ],
    );
    state(frame, title, model);
    let wide = area.width >= NARROW;
    let right = if wide {
        Constraint::Length(area.width * 2 / 5)
    } else {
        Constraint::Length(22)
    };
    let areas = Layout::horizontal([Constraint::Fill(1), right]).spacing(2);
    let [left, right] = areas.areas(middle);
    counts(frame, left, model);
    grants(frame, right, model, wide);
}

/// Draws the server and the age of the data.
pub(super) fn state(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let bar = Style::new().fg(Color::White).bg(Color::Indexed(236));
    frame.buffer_mut().set_style(area, bar);
    let state = state_text(model);
    let room = u16::try_from(state.width())
        .unwrap_or(u16::MAX)
        .min(area.width);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(room)]).areas(area);
    let mut spans = vec![
        " dlock top ".fg(Color::Black).bg(ACCENT).bold(),
        Span::raw("  "),
    ];
    let version = model.server.version().unwrap_or_default();
    let texts = [
        model.server.name().unwrap_or_default(),
        &version,
        &format!("namespace {}", model.namespace),
    ];
    for text in texts.into_iter().filter(|it| !it.is_empty()) {
        spans.extend([
            Span::raw(fit(text, area.width, Elide::End)),
            Span::raw("   "),
        ]);
    }
    frame.render_widget(Line::from(spans), left);
    frame.render_widget(state, right);
}

fn state_text(model: &Model) -> Line<'static> {
    if let Some(outage) = &model.outage {
        let text = format!(
            " no answer for {} s: {} ",
            model.age,
            fit(outage, 60, Elide::End)
        );
        return Line::from(text.fg(Color::White).bg(Color::Red).bold());
    }
    if model.paused {
        return Line::from(
            format!(" paused, locks read {} s ago ", model.age)
                .fg(Color::Black)
                .bg(WARM),
        );
    }
    let progress = model.progress.map(|it| format!(" ({it} %)"));
    let progress = progress.unwrap_or_default();
    let age = model.age;
    let text = match model.picture.as_ref().map(|it| it.pace) {
        Some(Pace::First) => format!(" reading the locks{progress} "),
        Some(Pace::Known(took)) => {
            let took = brief(took);
            format!(" full scan every {took}{progress}, known locks {age} s ago ")
        }
        Some(Pace::Scans(took)) => {
            format!(" each lock is read every {}{progress} ", brief(took))
        }
        Some(Pace::Whole) | None => return Line::default(),
    };
    Line::from(text.fg(Color::Black).bg(WARM))
}

fn counts(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(picture) = &model.picture else {
        let progress = model.progress.filter(|&it| it > 0);
        let progress = progress.map(|it| format!(": {it} %"));
        let text = format!(" reading the locks{}", progress.unwrap_or_default());
        frame.render_widget(Line::from(text).dim(), area);
        return;
    };
    let locks = || picture.locks.iter().map(|it| &it.lock);
    let held = locks().filter(|it| !it.holders.is_empty()).count();
    let waiting = locks().map(|it| it.waiter_count).sum();
    let mut numbers = Vec::new();
    let counted = [
        (Some(picture.locks.len()), "lock", "locks"),
        (Some(held), "held", "held"),
        (Some(waiting), "waiting", "waiting"),
        (picture.processes, "process", "processes"),
    ];
    for (number, one, many) in counted {
        let Some(number) = number else { continue };
        let what = if number == 1 { one } else { many };
        let number = Span::styled(format!(" {number}"), faded(Style::new().bold(), model));
        numbers.extend([number, format!(" {what}  ").dim()]);
    }
    let waits = locks().filter_map(|it| Some((longest_wait(it)?, &*it.key)));
    let mut waits: Vec<_> = waits.collect();
    waits.sort_unstable_by(|one, other| other.cmp(one));
    let mut longest = Line::from(" longest waits".dim());
    if waits.is_empty() {
        longest.push_span("  none".dim());
    }
    for (wait, key) in waits.into_iter().take(3) {
        let style = faded(Style::new().fg(WARM), model);
        let wait = Span::styled(format!("  {}", brief_ms(wait)), style);
        let key = Span::raw(format!(" {}", fit(key, 24, Elide::Middle)));
        // A truncated key could be mistaken for another one.
        if longest.width() + wait.width() + key.width() > usize::from(area.width) {
            break;
        }
        longest.extend([wait, key]);
    }
    let lines = vec![Line::from(numbers), longest];
    frame.render_widget(ratatui::text::Text::from(lines), area);
}

fn grants(frame: &mut Frame<'_>, area: Rect, model: &Model, wide: bool) {
    let label = Constraint::Length(20);
    let [text, chart] = Layout::horizontal([label, Constraint::Fill(1)]).areas(area);
    if let Some(reason) = model.rates.reason() {
        let line = Line::from(format!(
            "grants unknown: {}",
            fit(reason, area.width, Elide::End)
        ));
        frame.render_widget(line.fg(ALARM), area);
        return;
    }
    let Some(rate) = model.rates.per_second() else {
        return;
    };
    let lines = vec![
        Line::from(vec![Span::raw(format!("{rate}")).bold(), " grants/s".dim()]),
        Line::from(format!("peak {}", model.rates.peak())).dim(),
    ];
    frame.render_widget(ratatui::text::Text::from(lines), text);
    if wide {
        let seconds = model.rates.last(usize::from(chart.width).min(60));
        let chart = Rect {
            width: chart.width.min(60),
            ..chart
        };
        let line = Sparkline::default()
            .data(&seconds)
            .style(faded(ACCENT.into(), model));
        frame.render_widget(line, chart);
    }
}
