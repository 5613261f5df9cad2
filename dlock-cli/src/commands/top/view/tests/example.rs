//! Example locks, and functions that press keys.

use std::{sync::Arc, time::Duration};

use dlock_admin::{
    ServerReport,
    view::{THIRD_PARTY, token},
};
use dlock_admin_web::Server;
use ratatui::crossterm::event::KeyCode;

use crate::commands::top::{
    model::{Message, Model, Step},
    picture::{Holder, Lock, Pace, Picture, Process, Waiter},
};

fn holder(name: &str, function: Option<&str>) -> Holder {
    Holder {
        name: name.into(),
        function: function.map(Into::into),
        handle: Some("0123456789abcdef".parse().expect("it is valid")),
        token: token(91_700_412_345_678),
        held: Some(Duration::from_millis(4_230)),
        ttl: Some(Duration::from_secs(28)),
        process: Some(Arc::new(Process {
            application: Some("billing".to_owned()),
            host: "host-3".to_owned(),
            pid: 4711,
            started: "2026-01-02T03:04:05Z".to_owned(),
            version: "0.1.0".to_owned(),
        })),
    }
}

fn waiter(name: &str, seconds: u64, is_alive: bool) -> Waiter {
    Waiter {
        name: name.into(),
        waiting: Duration::from_secs(seconds),
        is_alive,
        ..Waiter::default()
    }
}

pub(super) fn model() -> Model {
    let mut report = ServerReport::new("redis://127.0.0.1:6379");
    report.product = Some("Redis".to_owned());
    report.version = Some("7.0.15".to_owned());
    let server = Server::default().after(&[report]);
    let mut model = Model::new("dlock", server);
    let mut foreign = Holder {
        name: THIRD_PARTY.into(),
        ..Holder::default()
    };
    foreign.ttl = None;
    let lock = |key: &str, holder, waiters: Vec<Waiter>| Lock {
        key: key.into(),
        holder_count: 1,
        holder,
        waiter_count: waiters.len(),
        waiters,
        last_token: token(91_700_412_345_678),
        held_at: 1,
        servers: 1,
        ..Lock::default()
    };
    let picture = Picture {
        locks: [
            lock(
                "order:42",
                Some(holder("billing@host-3/4711", Some("shop::orders::settle"))),
                vec![
                    waiter("billing@host-4/12", 75, true),
                    waiter("mail@host-5/9", 3, false),
                ],
            ),
            lock(
                "report:2026-11",
                Some(holder("cron@host-1/77", None)),
                Vec::new(),
            ),
            lock("evil\u{1b}[2J\u{202e}key", Some(foreign), Vec::new()),
            lock("orphan", None, vec![waiter("mail@host-5/9", 9, false)]),
        ]
        .map(Arc::new)
        .into(),
        processes: Some(3),
        pace: Pace::Whole,
    };
    send(&mut model, Message::Picture(picture));
    for rate in [0, 3, 9, 40, 80, 40, 17] {
        send(&mut model, Message::Second(rate));
    }
    model
}

pub(super) fn send(model: &mut Model, message: Message) {
    assert_eq!(model.update(message), Step::Go);
}

pub(super) fn press(model: &mut Model, code: KeyCode) {
    send(model, Message::Key(code.into()));
}
