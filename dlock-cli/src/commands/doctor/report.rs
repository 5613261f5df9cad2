//! Prints findings as text and as JSON.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use dlock_admin::doctor::{Facts, Finding, Judge, Severity};
use serde_json::{Value, json};
use textwrap::{Options, WordSplitter};

use crate::text::printable;

/// The width of lines, and the choice of colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) width: usize,
    pub(crate) colours: bool,
}

/// The column in which the text of a finding starts, after two spaces, the severity and the topic.
const INDENT: usize = 24;

/// The smallest width of text. In a narrower terminal the terminal wraps the lines.
const NARROWEST: usize = 30;

pub(crate) fn json(judge: &dyn Judge, facts: &Facts, findings: &[Finding]) -> Value {
    let servers: Vec<_> = facts.servers.iter().map(|it| &it.server).collect();
    let worst = findings.iter().map(|it| it.severity).max();
    json!({
        "layout": judge.layout().unwrap_or("one server"),
        "servers": servers,
        "worst": worst.unwrap_or(Severity::Ok).name(),
        "healthy": !findings.iter().any(Finding::counts),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(it: &Finding) -> Value {
    json!({
        "severity": it.severity.name(),
        "topic": it.topic.name(),
        "server": it.server,
        "what": it.what,
        "why": it.why,
        "do": it.advice,
        "accepted": it.accepted,
    })
}

/// Formats the common findings, the findings of each server, and the number of findings by severity.
pub(crate) fn text(judge: &dyn Judge, facts: &Facts, findings: &[Finding], page: Page) -> String {
    let mut out = String::new();
    let common: Vec<_> = findings.iter().filter(|it| it.server.is_none()).collect();
    section(&mut out, &title(judge, facts), &common, page);
    for server in &facts.servers {
        let of_server = |it: &&Finding| it.server.as_ref() == Some(&server.server);
        let found: Vec<_> = findings.iter().filter(of_server).collect();
        section(&mut out, &server.server, &found, page);
    }
    out.push_str(&summary(findings));
    out.push('\n');
    out
}

fn title(judge: &dyn Judge, facts: &Facts) -> String {
    match (judge.layout(), facts.servers.len()) {
        (None, _) => "Locks".to_owned(),
        (Some(layout), 1) => format!("{}: 1 server", capital(layout)),
        (Some(layout), count) => format!("{}: {count} servers", capital(layout)),
    }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

fn section(out: &mut String, title: &str, findings: &[&Finding], page: Page) {
    if findings.is_empty() {
        return;
    }
    let title = printable(title);
    line(out, &painted(&title, Style::new().bold(), page));
    let mut sorted = findings.to_vec();
    // The sort is stable: findings of the same severity keep their order.
    sorted.sort_by_key(|it| std::cmp::Reverse(it.severity));
    for finding in sorted {
        show(out, finding, page);
    }
    out.push('\n');
}

fn show(out: &mut String, finding: &Finding, page: Page) {
    let severity = format!("{:<8}", finding.severity.name());
    let severity = painted(&severity, style(finding.severity), page);
    let accepted = if finding.accepted { " (accepted)" } else { "" };
    let what = format!("{}{accepted}", finding.what);
    let topic = finding.topic.name();
    let parts = [
        ("", Some(&what)),
        ("why: ", finding.why.as_ref()),
        ("do: ", finding.advice.as_ref()),
    ];
    let mut head = format!("  {severity}  {topic:<12}");
    for (label, text) in parts {
        let Some(text) = text else { continue };
        let text = printable(text);
        let width = page.width.saturating_sub(INDENT + 5).max(NARROWEST);
        let hanging = if label.is_empty() { 0 } else { 5 };
        for (index, words) in wrapped(&text, width).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let label = painted(&format!("{label:<hanging$}"), Style::new().dimmed(), page);
            line(out, &format!("{head}{label}{words}"));
            head = " ".repeat(INDENT);
        }
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
}

fn summary(findings: &[Finding]) -> String {
    let sorts = [
        (Severity::Broken, "broken", "broken"),
        (Severity::Risk, "risk", "risks"),
        (Severity::Unknown, "unknown", "unknown"),
        (Severity::Note, "note", "notes"),
        (Severity::Ok, "ok", "ok"),
    ];
    let counts = sorts.into_iter().filter_map(|(severity, one, many)| {
        let count = findings.iter().filter(|it| it.severity == severity).count();
        match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            _ => Some(format!("{count} {many}")),
        }
    });
    counts.collect::<Vec<_>>().join(", ")
}

fn style(severity: Severity) -> Style {
    let (color, bold) = match severity {
        Severity::Ok => (AnsiColor::Green, false),
        Severity::Unknown => (AnsiColor::Magenta, false),
        Severity::Note => (AnsiColor::Cyan, false),
        Severity::Risk => (AnsiColor::Yellow, true),
        Severity::Broken => (AnsiColor::Red, true),
    };
    let style = color.on_default();
    if bold { style.bold() } else { style }
}

fn painted(text: &str, style: Style, page: Page) -> String {
    if page.colours {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Wraps text between words. A word that is too long gets a line of its own.
///
/// Words are not broken, because most long words are addresses, keys and commands.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use dlock_admin::{
        ServerReport,
        doctor::{AnyStore, Topic},
    };
    use expect_test::expect;

    use super::*;

    fn facts() -> Facts {
        let mut facts = Facts::unknown();
        facts.servers = vec![ServerReport::new("127.0.0.1:6379")];
        facts
    }

    fn findings() -> Vec<Finding> {
        let of_server = [
            Finding::ok(Topic::Version, "Redis 7.0.15"),
            Finding::risk(Topic::Eviction, "allkeys-lru at 1.0 GiB: locks may be evicted")
                .why("an evicted lock is free: a second holder enters while the first one believes in its lease")
                .advice("CONFIG SET maxmemory-policy noeviction"),
        ];
        let common = Finding::unknown(Topic::Locks, "a\u{1b}[2Jkey");
        let of_server = of_server.map(|it| it.at("127.0.0.1:6379"));
        [common].into_iter().chain(of_server).collect()
    }

    #[test]
    fn the_worst_comes_first_and_long_texts_are_wrapped() {
        let page = Page {
            width: 80,
            colours: false,
        };
        expect![[r"
            Locks
              unknown   locks       a\u{1b}[2Jkey

            127.0.0.1:6379
              risk      eviction    allkeys-lru at 1.0 GiB: locks may be evicted
                                    why: an evicted lock is free: a second holder enters
                                         while the first one believes in its lease
                                    do:  CONFIG SET maxmemory-policy noeviction
              ok        version     Redis 7.0.15

            1 risk, 1 unknown, 1 ok
        "]]
        .assert_eq(&text(&AnyStore, &facts(), &findings(), page));
    }

    #[test]
    fn colours_are_for_terminals_and_change_no_letter() {
        let page = |colours| Page { width: 80, colours };
        let plain = text(&AnyStore, &facts(), &findings(), page(false));
        let coloured = text(&AnyStore, &facts(), &findings(), page(true));
        assert!(coloured.contains("\u{1b}[1m\u{1b}[33mrisk"), "{coloured:?}");
        let stripped = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(stripped, plain);
    }

    #[test]
    fn programs_get_all_of_it() {
        let told = json(&AnyStore, &facts(), &findings());
        assert_eq!(told["worst"], "risk");
        assert_eq!(told["healthy"], false);
        assert_eq!(told["findings"][2]["topic"], "eviction");
        assert_eq!(told["findings"][2]["server"], "127.0.0.1:6379");
        assert_eq!(
            told["findings"][2]["do"],
            "CONFIG SET maxmemory-policy noeviction"
        );
    }
}
