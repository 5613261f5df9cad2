//! Tests of the screen of `dlock top`, as text.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod example;

use std::{sync::Arc, time::Duration};

use dlock_admin_web::Server;
use expect_test::{Expect, expect};
use ratatui::crossterm::event::KeyCode;

use self::example::{model, press, send};
use super::*;
use crate::{
    commands::top::model::Message,
    follow::{Pace, Picture},
};

fn terminal(model: &Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal
}

fn check(model: &Model, (width, height): (u16, u16), expected: &Expect) {
    let terminal = terminal(model, width, height);
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    let lines: Vec<String> = lines
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect();
    // Without the margin the first column would count as indentation.
    let lines = lines.iter().map(|it| format!("|{}\n", it.trim_end()));
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn a_wide_terminal_shows_it_all() {
    check(
        &model(),
        (120, 12),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes                             38 grants/s                                  █
            | longest waits  75 s order:42                                           peak 80                                    ▁███▃
            |
            | KEY                          HOLDER                       FUNCTION                   HELD      TTL  WAITERS  LONGEST▼
            | order:42                     billing@host-3/4711          shop::orders::settle      4.2 s     28 s        2      75 s
            | evil\u{1b}[2J\u{202e}key     (third-party client)                                             none        –
            | orphan                       none                                                                         1      dead
            | report:2026-11               cron@host-1/77                                         4.2 s     28 s        –
            |
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn a_usual_terminal_has_no_room_for_functions() {
    check(
        &model(),
        (80, 12),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | longest waits  75 s order:42                             peak 80
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            | order:42                 billing@host-3/4711   4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key (third-pa…y client)            none       –
            | orphan                   none                                      1     dead
            | report:2026-11           cron@host-1/77        4.2 s    28 s       –
            |
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn a_tiny_terminal_shows_keys() {
    check(
        &model(),
        (30, 5),
        &expect![[r#"
            | dlock top   127.0.0.1:6379
            | KEY                  WAITERS
            | order:42                   2
            | evil\u{1b…u{202e}key       –
            | orphan                     1
        "#]],
    );
}

#[test]
fn a_lock_is_shown_in_full() {
    let mut model = model();
    press(&mut model, KeyCode::Enter);
    check(
        &model,
        (100, 24),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes                 38 grants/s                          █
            | longest waits  75 s order:42                               peak 80                            ▁███▃
            |
            | KEY                                 HOLDER                          HELD     TTL WAITERS LONGEST▼
            | order:42                            billing@host-3/4711            4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key            (third-party client)                    none       –
            | orphan                              none                                               1     dead
            | report:2026-11                      cron@host-1/77                 4.2 s    28 s       –
            |
            |
            |
            |
            |
            | order:42 ──────────────────────────────────────────────────────────────────────────────────────────
            | holder       billing@host-3/4711                                 2 waiting, next one first
            | function     shop::orders::settle                                  1     75 s  billing@host-4/12
            | held for     4.2 s, TTL left 28 s                                  2     dead  mail@host-5/9
            | process      billing, pid 4711 on host-3
            | running      since 2026-01-02T03:04:05.000Z, dlock 0.1.0
            | token        375604888967897088, last token 375604888967897088
            | handle       2f959ea61d00576b
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn keys_are_explained() {
    let mut model = model();
    press(&mut model, KeyCode::Char('?'));
    check(
        &model,
        (80, 16),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | l┌ Keys ────────────────────────────────────────────────────────────────────┐
            |  │ ↑ ↓ j k    select a lock; also PgUp, PgDn, Home and End                  │
            | K│ Enter      show or hide the details of the selected lock                 │
            | o│ /          filter the locks by key, holder, waiter or function           │
            | e│ s S        sort by the next or the previous column; also → and ←         │
            | o│ r          reverse the order                                             │
            | r│ p, space   pause or resume                                               │
            |  │ Esc        close the details or this help, or clear the filter           │
            |  │ ?          show this help                                                │
            |  │ Ctrl-Z     suspend; `fg` returns to the screen                           │
            |  │ q, Ctrl-C  quit                                                          │
            |  └──────────────────────────────────────────────────────────────────────────┘
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn a_filter_is_visible_while_it_is_typed_and_afterwards() {
    let mut model = model();
    for c in "/evil".chars() {
        press(&mut model, KeyCode::Char(c));
    }
    check(
        &model,
        (80, 10),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | longest waits  75 s order:42                             peak 80
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            | evil\u{1b}[2J\u{202e}key (third-pa…y client)            none       –
            |
            |
            |
            | /evil▏  Enter: apply, Esc: clear
        "#]],
    );
    press(&mut model, KeyCode::Char('x'));
    press(&mut model, KeyCode::Enter);
    check(
        &model,
        (80, 10),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | longest waits  75 s order:42                             peak 80
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            |
            |                            no locks match the filter
            |
            |
            | /evilx  q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

/// A model whose server has too many keys for the interval.
fn slow() -> Model {
    let mut model = model();
    let mut picture = model.picture.clone().expect("it has one");
    picture.pace = Pace::Known(Duration::from_secs(24));
    send(&mut model, Message::Picture(picture));
    send(&mut model, Message::Progress(Some(37)));
    send(&mut model, Message::Second(38));
    model
}

#[test]
fn slow_scans_are_reported() {
    check(
        &slow(),
        (120, 6),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock           full scan every 24 s (37 %), known locks 1 s ago
            | KEY                          HOLDER                       FUNCTION                   HELD      TTL  WAITERS  LONGEST▼
            | order:42                     billing@host-3/4711          shop::orders::settle      4.2 s     28 s        2      75 s
            | evil\u{1b}[2J\u{202e}key     (third-party client)                                             none        –
            | orphan                       none                                                                         1      dead
            | report:2026-11               cron@host-1/77                                         4.2 s     28 s        –
        "#]],
    );
    check(
        &slow(),
        (60, 10),
        &expect![[r#"
            | dlock top full scan every 24 s (37 %), known locks 1 s ago
            | 4 locks   3 held   3 waiting   3 pr  43 grants/s
            | longest waits  75 s order:42         peak 80
            |
            | KEY                          HELD     TTL WAITERS LONGEST▼
            | order:42                    4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key             none       –
            | orphan                                          1     dead
            | report:2026-11              4.2 s    28 s       –
            | q quit  / filter  s sort  r reverse  Enter details  p pause
        "#]],
    );
    let mut first = Model::new("dlock", Server::default());
    send(&mut first, Message::Progress(Some(3)));
    check(
        &first,
        (80, 9),
        &expect![[r#"
            | dlock top   namespace dlock
            | reading the locks: 3 %
            |
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            |
            |
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn an_outage_is_reported_and_old_data_is_gray() {
    let mut model = model();
    send(
        &mut model,
        Message::Outage("the server cannot be reached: refused".to_owned()),
    );
    check(
        &model,
        (100, 10),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15 no answer for 7 s: the server cannot be reached: refused
            | 4 locks   3 held   3 waiting   3 processes                 38 grants/s                          █
            | longest waits  75 s order:42                               peak 80                            ▁███▃
            |
            | KEY                                 HOLDER                          HELD     TTL WAITERS LONGEST▼
            | order:42                            billing@host-3/4711            4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key            (third-party client)                    none       –
            | orphan                              none                                               1     dead
            | report:2026-11                      cron@host-1/77                 4.2 s    28 s       –
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
    let terminal = terminal(&model, 100, 10);
    let buffer = terminal.backend().buffer();
    let cell = buffer.cell((2, 5)).unwrap();
    assert_eq!((cell.symbol(), cell.fg), ("r", Color::DarkGray));
}

#[test]
fn a_missing_permission_to_subscribe_is_reported() {
    let mut model = model();
    send(
        &mut model,
        Message::Blind("the user lacks `psubscribe`".to_owned()),
    );
    check(
        &model,
        (100, 8),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes                 grants unknown: the user lacks `psubscri
            | longest waits  75 s order:42
            |
            | KEY                                 HOLDER                          HELD     TTL WAITERS LONGEST▼
            | order:42                            billing@host-3/4711            4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key            (third-party client)                    none       –
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn an_empty_screen_says_so() {
    let mut model = Model::new("dlock", Server::default());
    check(
        &model,
        (60, 9),
        &expect![[r#"
            | dlock top   namespace dlock
            | reading the locks
            |
            |
            | KEY                          HELD     TTL WAITERS LONGEST▼
            |
            |
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause
        "#]],
    );
    let empty = Picture {
        processes: Some(0),
        ..Picture::default()
    };
    send(&mut model, Message::Picture(empty));
    check(
        &model,
        (60, 9),
        &expect![[r#"
            | dlock top   namespace dlock
            | 0 locks   0 held   0 waiting   0 pr
            | longest waits  none
            |
            | KEY                          HELD     TTL WAITERS LONGEST▼
            |
            |     no locks are held or waited for in namespace dlock
            |
            | q quit  / filter  s sort  r reverse  Enter details  p pause
        "#]],
    );
}

#[test]
fn text_has_as_many_lines_as_locks() {
    let text = text(&model(), 100);
    assert_eq!(text.lines().count(), 4 + 1 + 4, "{text}");
    assert!(text.contains(r"evil\u{1b}[2J\u{202e}key"), "{text}");
    assert!(!text.contains("quit"), "there are no keys:\n{text}");
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    let mut model = model();
    for code in [KeyCode::F(1), KeyCode::Enter, KeyCode::Char('?')] {
        press(&mut model, code);
        for width in [0, 1, 2, 7, 20, 49, 50, 71, 72, 89, 90, 110, 300] {
            for height in [0, 1, 2, 3, 7, 8, 9, 12, 60] {
                drop(terminal(&model, width, height));
            }
        }
    }
}

#[test]
fn a_shared_lock_is_shown_with_all_of_its_holders() {
    let mut model = model();
    let mut picture = model.picture.clone().expect("it has one");
    let shared = &mut Arc::make_mut(&mut picture.locks[0]).lock;
    let mut other = shared.holders[0].clone();
    (other.label, other.ttl_ms) = (Some("mail@host-5/9".to_owned()), Some(7_000));
    shared.holders.push(other);
    shared.holder_count = 3;
    (shared.waiters[0].mode, shared.waiters[0].permits) = ("permits", Some(3));
    send(&mut model, Message::Picture(picture));
    press(&mut model, KeyCode::Enter);
    let terminal = terminal(&model, 120, 40);
    let shown = terminal.backend().to_string();
    for words in [
        "billing@host-3/4711 +2",
        "shared by    3",
        "holder       mail@host-5/9, TTL left 7",
        "and 1 more",
        "billing@host-4/12 (one of 3 permits)",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// A lock whose names are as long as those of containers.
fn long_names() -> Model {
    let mut model = model();
    let mut picture = model.picture.clone().expect("it has one");
    let lock = &mut Arc::make_mut(&mut picture.locks[0]).lock;
    lock.key = "tenant:northern-europe:customer:0190b6f2:invoice:2026-11-00417".into();
    let holder = &mut lock.holders[0];
    holder.label = Some("billing-worker@billing-worker-7d9f8b6c54-x2k9q/4711".into());
    let function = "billing::invoices::settlement::settle_and_send_the_invoice_of_the_last_month";
    holder.function = Some(function.into());
    let waiter = &mut lock.waiters[0];
    waiter.label = Some("mail-gateway@mail-gateway-5c6d7f8b9d-p4w2z/1148".into());
    send(&mut model, Message::Picture(picture));
    model
}

#[test]
fn a_usual_terminal_shows_both_ends_of_long_names() {
    check(
        &long_names(),
        (80, 8),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | longest waits  75 s tenant:nort…026-11-00417             peak 80
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            | tenant:nort…026-11-00417 billing-w…2k9q/4711   4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key (third-pa…y client)            none       –
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn a_usual_terminal_shows_whole_names_in_the_details() {
    let mut model = long_names();
    press(&mut model, KeyCode::Enter);
    check(
        &model,
        (80, 24),
        &expect![[r#"
            | dlock top   127.0.0.1:6379   Redis 7.0.15   namespace dlock
            | 4 locks   3 held   3 waiting   3 processes               38 grants/s
            | longest waits  75 s tenant:nort…026-11-00417             peak 80
            |
            | KEY                      HOLDER                 HELD     TTL WAITERS LONGEST▼
            | tenant:nort…026-11-00417 billing-w…2k9q/4711   4.2 s    28 s       2     75 s
            | evil\u{1b}[2J\u{202e}key (third-pa…y client)            none       –
            | orphan                   none                                      1     dead
            | report:2026-11           cron@host-1/77        4.2 s    28 s       –
            |
            |
            | tenant:northern-europe:customer:0190b6f2:invoice:2026-11-00417 ────────────────
            | holder       billing-worker@billing-worker-7d9f8b6c54-x2k9q/4711
            | function     billing::invoices::settlement::settle_and_send_the_invoice_of_the_
            |              last_month
            | held for     4.2 s, TTL left 28 s
            | process      billing, pid 4711 on host-3
            | running      since 2026-01-02T03:04:05.000Z, dlock 0.1.0
            | token        375604888967897088, last token 375604888967897088
            | handle       2f959ea61d00576b
            | 2 waiting, next one first
            |   1     75 s  mail-gateway@mail-gateway-5c6d7f8b9d-p4w2z/1148
            |   2     dead  mail@host-5/9
            | q quit  / filter  s sort  r reverse  Enter details  p pause  ? help
        "#]],
    );
}

#[test]
fn many_locks_are_shown_while_they_are_read() {
    let mut model = model();
    let mut picture = model.picture.clone().expect("it has one");
    send(&mut model, Message::Progress(Some(37)));
    for (pace, words) in [
        (Pace::First, "reading the locks (37 %)"),
        (
            Pace::Scans(Duration::from_secs(61)),
            "each lock is read every 61 s (37 %)",
        ),
    ] {
        picture.pace = pace;
        send(&mut model, Message::Picture(picture.clone()));
        let shown = terminal(&model, 120, 8).backend().to_string();
        assert!(shown.contains(words), "{words}: {shown}");
        assert!(shown.contains("order:42"), "{shown}");
    }
    let nothing = Picture {
        pace: Pace::First,
        ..Picture::default()
    };
    send(&mut model, Message::Picture(nothing));
    let shown = terminal(&model, 120, 8).backend().to_string();
    assert!(!shown.contains("no locks"), "they are unknown: {shown}");
}

#[test]
fn an_empty_screen_says_what_was_read_and_when() {
    let mut model = model();
    send(&mut model, Message::Picture(Picture::default()));
    let shown = |model: &Model| terminal(model, 120, 8).backend().to_string();
    let free = "no locks are held or waited for in namespace dlock of 127.0.0.1:6379";
    assert!(shown(&model).contains(free), "{}", shown(&model));
    for _ in 0..3 {
        send(&mut model, Message::Second(0));
    }
    let late = format!("{free}, read 3 s ago");
    assert!(shown(&model).contains(&late), "{}", shown(&model));
    send(&mut model, Message::Outage("refused".to_owned()));
    let was = "no locks were held or waited for in namespace dlock of 127.0.0.1:6379 3 s ago";
    assert!(shown(&model).contains(was), "{}", shown(&model));
}

#[test]
fn the_chosen_lock_is_seen_among_thousands() {
    let mut model = model();
    let mut picture = model.picture.clone().expect("it has one");
    let lock = |number: usize| {
        let mut seen = (*picture.locks[1]).clone();
        seen.lock.key = format!("n:{number:05}");
        Arc::new(seen)
    };
    picture.locks = (0..10_000).map(lock).collect();
    send(&mut model, Message::Picture(picture));
    for (key, row) in [
        (KeyCode::End, "n:09999"),
        (KeyCode::Up, "n:09998"),
        (KeyCode::Home, "n:00000"),
    ] {
        press(&mut model, key);
        let shown = terminal(&model, 80, 24).backend().to_string();
        assert!(shown.contains(row), "{row}: {shown}");
    }
}
