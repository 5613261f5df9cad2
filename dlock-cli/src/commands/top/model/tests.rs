//! Tests of the model of `dlock top`.

use std::time::{Duration, UNIX_EPOCH};

use dlock::{
    LockMode,
    random::SystemRandom,
    store::{ClientId, OwnerId},
};
use dlock_admin::{HolderInfo, LockInfo, WaiterInfo};

use super::*;
use crate::follow::Pace;

fn lock(key: &str, holder: &str, ttl: Option<u64>, waits: &[u64]) -> Seen {
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let now = UNIX_EPOCH + Duration::from_secs(60);
    let mut lock = LockInfo::new(key);
    if !holder.is_empty() {
        let mut info = HolderInfo::new(Some(owner), 1, now);
        info.label = Some(holder.to_owned());
        info.function = Some(format!("app::{holder}"));
        info.since = Some(now - Duration::from_secs(waits.len() as u64));
        info.ttl = ttl.map(Duration::from_secs);
        lock.add_holder(info);
    }
    for wait in waits {
        let mut waiter = WaiterInfo::new(owner, LockMode::Exclusive);
        waiter.label = Some(format!("mail@host/{wait}"));
        waiter.waiting = Duration::from_secs(*wait);
        waiter.is_alive = true;
        lock.add_waiter(waiter);
    }
    Seen::of(&lock, now)
}

fn picture() -> Picture {
    Picture {
        locks: [
            lock("a", "one", Some(20), &[1, 2]),
            lock("b", "two", None, &[7]),
            lock("c", "", Some(1), &[]),
            lock("d", "Four", Some(10), &[]),
        ]
        .map(Arc::new)
        .into(),
        processes: Some(3),
        pace: Pace::Whole,
    }
}

fn model() -> Model {
    let mut model = Model::new("dlock", Server::default());
    assert_eq!(model.update(Message::Picture(picture())), Step::Go);
    model
}

fn keys(model: &Model) -> String {
    model.rows().iter().map(|it| &*it.lock.key).collect()
}

fn press(model: &mut Model, codes: &[KeyCode]) {
    for &code in codes {
        assert_eq!(model.update(Message::Key(code.into())), Step::Go, "{code}");
    }
}

fn type_in(model: &mut Model, text: &str) {
    let codes: Vec<_> = text.chars().map(KeyCode::Char).collect();
    press(model, &codes);
}

fn chosen(model: &Model) -> Option<&str> {
    model.chosen_lock().map(|it| &*it.key)
}

#[test]
fn every_column_has_a_useful_order() {
    let mut model = model();
    for (column, order) in [
        (Column::Key, "abcd"),
        (Column::Holder, "dabc"),
        (Column::Function, "dabc"),
        (Column::Held, "abdc"),
        (Column::Ttl, "bdac"),
        (Column::Waiters, "abcd"),
        (Column::Longest, "bacd"),
    ] {
        model.sort_by(column);
        assert_eq!(keys(&model), order, "{column:?}");
        let backwards: String = order.chars().rev().collect();
        press(&mut model, &[KeyCode::Char('r')]);
        assert_eq!(keys(&model), backwards, "{column:?}");
        press(&mut model, &[KeyCode::Char('r')]);
    }
}

#[test]
fn keys_go_through_the_columns() {
    let mut model = model();
    assert_eq!(model.sort, Column::Longest);
    press(&mut model, &[KeyCode::Char('s')]);
    assert_eq!(model.sort, Column::Key);
    press(&mut model, &[KeyCode::Char('S'), KeyCode::Left]);
    assert_eq!(model.sort, Column::Waiters);
}

#[test]
fn the_dead_wait_for_nothing() {
    let mut dead = lock("a", "one", Some(1), &[5, 9]).lock;
    dead.waiters[1].is_alive = false;
    assert_eq!(longest_wait(&dead), Some(5_000));
    dead.waiters[0].is_alive = false;
    assert_eq!(longest_wait(&dead), None);
}

#[test]
fn a_filter_matches_keys_holders_waiters_and_functions() {
    let mut model = model();
    press(&mut model, &[KeyCode::Char('/')]);
    type_in(&mut model, "fOUr");
    assert_eq!(keys(&model), "d");
    press(&mut model, &[KeyCode::Backspace, KeyCode::Backspace]);
    assert_eq!(model.filter, "fO");
    press(&mut model, &[KeyCode::Enter]);
    assert_eq!((model.mode, keys(&model)), (Mode::Browse, "d".to_owned()));
    press(&mut model, &[KeyCode::Char('/')]);
    type_in(&mut model, "q?");
    assert_eq!(
        keys(&model),
        "",
        "keys that are commands elsewhere are text here"
    );
    press(&mut model, &[KeyCode::Esc]);
    assert_eq!(keys(&model), "bacd");
    press(&mut model, &[KeyCode::Char('/')]);
    type_in(&mut model, "app::tw");
    assert_eq!(keys(&model), "b");
    press(&mut model, &[KeyCode::Esc, KeyCode::Char('/')]);
    type_in(&mut model, "Mail@host/7");
    assert_eq!(keys(&model), "b", "what this process waits for");
}

#[test]
fn the_chosen_lock_is_kept_wherever_it_goes() {
    let mut model = model();
    assert_eq!(chosen(&model), Some("b"), "the first one, by itself");
    press(&mut model, &[KeyCode::Down]);
    assert_eq!(chosen(&model), Some("a"));
    model.sort_by(Column::Key);
    assert_eq!((chosen(&model), model.chosen_row()), (Some("a"), Some(0)));
    press(&mut model, &[KeyCode::End, KeyCode::Down]);
    assert_eq!(chosen(&model), Some("d"));
    press(&mut model, &[KeyCode::PageUp, KeyCode::Char('k')]);
    assert_eq!(chosen(&model), Some("a"));
}

#[test]
fn when_the_chosen_lock_is_gone_its_row_stays() {
    let mut model = model();
    model.sort_by(Column::Key);
    press(&mut model, &[KeyCode::Home, KeyCode::Down, KeyCode::Enter]);
    assert_eq!((chosen(&model), model.details), (Some("b"), true));
    let mut fewer = picture();
    fewer.locks.remove(1);
    assert_eq!(model.update(Message::Picture(fewer)), Step::Go);
    assert_eq!(chosen(&model), Some("c"));
    assert_eq!(model.update(Message::Picture(Picture::default())), Step::Go);
    assert_eq!((chosen(&model), model.details), (None, false));
    assert_eq!(model.update(Message::Picture(picture())), Step::Go);
    assert!(chosen(&model).is_some());
}

#[test]
fn escape_closes_the_topmost_window_first() {
    let mut model = model();
    press(&mut model, &[KeyCode::Char('/')]);
    type_in(&mut model, "a");
    press(&mut model, &[KeyCode::Enter, KeyCode::Enter]);
    assert!(model.details);
    press(&mut model, &[KeyCode::Esc]);
    assert!(!model.details && model.filter == "a");
    press(&mut model, &[KeyCode::Esc]);
    assert_eq!(model.filter, "");
    press(&mut model, &[KeyCode::Char('?'), KeyCode::Esc]);
    assert_eq!(model.mode, Mode::Browse);
}

#[test]
fn a_held_picture_stands_still() {
    let mut model = model();
    press(&mut model, &[KeyCode::Char('p')]);
    assert_eq!(model.update(Message::Second(5)), Step::Go);
    assert_eq!(model.update(Message::Picture(Picture::default())), Step::Go);
    assert_eq!((keys(&model).as_str(), model.age), ("bacd", 1));
    press(&mut model, &[KeyCode::Char('p')]);
    assert_eq!(model.update(Message::Picture(Picture::default())), Step::Go);
    assert_eq!((keys(&model).as_str(), model.age), ("", 0));
}

#[test]
fn an_outage_keeps_the_last_picture_and_says_how_old_it_is() {
    let mut model = model();
    assert_eq!(
        model.update(Message::Outage("refused".to_owned())),
        Step::Go
    );
    for _ in 0..3 {
        assert_eq!(model.update(Message::Second(0)), Step::Go);
    }
    assert_eq!((model.outage.as_deref(), model.age), (Some("refused"), 3));
    assert_eq!(keys(&model), "bacd");
    assert_eq!(model.update(Message::Picture(picture())), Step::Go);
    assert_eq!((model.outage.as_deref(), model.age), (None, 0));
}

#[test]
fn one_leaves_by_the_usual_keys_and_with_the_terminal() {
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for mode in [Mode::Browse, Mode::Filter, Mode::Help] {
        let mut model = model();
        model.mode = mode;
        assert_eq!(
            model.update(Message::Key(control_c)),
            Step::Quit,
            "{mode:?}"
        );
        assert_eq!(model.update(Message::Closed), Step::Quit);
    }
    for mode in [Mode::Browse, Mode::Help] {
        let mut model = model();
        model.mode = mode;
        let q = Message::Key(KeyCode::Char('q').into());
        assert_eq!(model.update(q), Step::Quit, "{mode:?}");
    }
}

#[test]
fn a_shared_lock_is_found_by_each_of_its_holders() {
    let mut shared = lock("shared", "billing", Some(20), &[]).lock;
    let mut other = shared.holders[0].clone();
    (other.label, other.function) = (Some("mail".to_owned()), Some("app::read".to_owned()));
    shared.holders.push(other);
    for (wanted, is_found) in [
        ("", true),
        ("billing", true),
        ("mail", true),
        ("app::read", true),
        ("cron", false),
    ] {
        assert_eq!(matches(&shared, wanted), is_found, "{wanted}");
    }
}

#[test]
fn rows_are_chosen_one_by_one_and_by_pages() {
    let mut model = model();
    let locks = (0..30).map(|number| Arc::new(lock(&format!("{number:02}"), "", None, &[])));
    let many = Picture {
        locks: locks.collect(),
        ..picture()
    };
    assert_eq!(model.update(Message::Picture(many)), Step::Go);
    model.sort_by(Column::Key);
    press(&mut model, &[KeyCode::Home]);
    for (code, key) in [
        (KeyCode::PageDown, "10"),
        (KeyCode::PageDown, "20"),
        (KeyCode::PageUp, "10"),
        (KeyCode::Up, "09"),
        (KeyCode::Char('j'), "10"),
        (KeyCode::Char('g'), "00"),
        (KeyCode::Up, "00"),
        (KeyCode::Char('G'), "29"),
        (KeyCode::PageDown, "29"),
        (KeyCode::PageUp, "19"),
        // Those move also while a filter is typed.
        (KeyCode::Char('/'), "19"),
        (KeyCode::Up, "18"),
        (KeyCode::Down, "19"),
        (KeyCode::Down, "20"),
    ] {
        press(&mut model, &[code]);
        assert_eq!(chosen(&model), Some(key), "{code}");
    }
    assert_eq!((model.mode, &*model.filter), (Mode::Filter, ""));
}

#[test]
fn details_are_those_of_a_lock() {
    let mut model = model();
    press(&mut model, &[KeyCode::Enter]);
    assert!(model.details);
    press(&mut model, &[KeyCode::Enter]);
    assert!(!model.details);
    assert_eq!(model.update(Message::Picture(Picture::default())), Step::Go);
    press(&mut model, &[KeyCode::Enter]);
    assert!(!model.details, "there is no lock");
}

#[test]
fn a_key_with_control_is_none_of_the_letters() {
    let mut model = model();
    let mut control = |letter| {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        model.update(Message::Key(key))
    };
    for letter in ['q', 'p', '/'] {
        assert_eq!(control(letter), Step::Go, "{letter}");
    }
    #[cfg(unix)]
    assert_eq!(control('z'), Step::Suspend);
    assert_eq!((model.mode, model.paused), (Mode::Browse, false));
}

#[test]
fn messages_about_the_scan_and_the_grants_are_kept() {
    let mut model = model();
    let mut tell = |message| assert_eq!(model.update(message), Step::Go);
    tell(Message::Progress(Some(7)));
    tell(Message::Second(5));
    tell(Message::Resized);
    assert_eq!(model.progress, Some(7));
    assert_eq!(model.rates.per_second(), Some(5));
    let mut tell = |message| assert_eq!(model.update(message), Step::Go);
    tell(Message::Progress(None));
    tell(Message::Blind("NOPERM".to_owned()));
    tell(Message::Second(5));
    assert_eq!((model.progress, model.rates.per_second()), (None, None));
    assert_eq!(model.rates.reason(), Some("NOPERM"));
    assert_eq!(model.update(Message::Seeing), Step::Go);
    assert_eq!(model.rates.reason(), None);
}
