//! Example locks, and functions that press keys.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use dlock::{
    LockMode,
    random::Random,
    store::{ClientId, OwnerId},
};
use dlock_admin::{HolderInfo, LockInfo, ProcessInfo, ServerReport, WaiterInfo};
use dlock_admin_web::Server;
use ratatui::crossterm::event::KeyCode;

use crate::{
    commands::top::model::{Message, Model, Step},
    follow::{Pace, Picture, Seen},
};

/// The time when the locks were read, since 1970.
const NOW: Duration = Duration::from_millis(1_767_323_049_230);

const FENCE: u64 = 91_700_412_345_678;

/// The only client.
fn owner(number: u64) -> OwnerId {
    struct Same;

    impl Random for Same {
        fn next_u64(&self) -> u64 {
            7
        }
    }

    OwnerId::new(ClientId::new(&Same), number)
}

fn holder(name: &str, function: Option<&str>) -> HolderInfo {
    let now = UNIX_EPOCH + NOW;
    let owner = owner(1);
    let mut holder = HolderInfo::new(Some(owner), FENCE, now);
    holder.label = Some(name.to_owned());
    holder.function = function.map(str::to_owned);
    let since = now - Duration::from_millis(4_230);
    holder.since = Some(since);
    holder.ttl = Some(Duration::from_secs(28));
    let process = ProcessInfo::new(owner.client(), "billing@host-3/4711", since, "0.1.0");
    holder.process = Some(process);
    holder
}

fn foreign() -> HolderInfo {
    HolderInfo::new(None, 0, UNIX_EPOCH)
}

fn waiter(name: &str, seconds: u64, is_alive: bool) -> WaiterInfo {
    let mut waiter = WaiterInfo::new(owner(2), LockMode::Exclusive);
    waiter.label = Some(name.to_owned());
    waiter.waiting = Duration::from_secs(seconds);
    waiter.is_alive = is_alive;
    waiter
}

fn lock(key: &str, holder: Option<HolderInfo>, waiters: Vec<WaiterInfo>) -> Arc<Seen> {
    let mut lock = LockInfo::new(key);
    if let Some(holder) = holder {
        lock.add_holder(holder);
    }
    for waiter in waiters {
        lock.add_waiter(waiter);
    }
    lock.last_fence = FENCE;
    Arc::new(Seen::of(&lock, UNIX_EPOCH + NOW))
}

pub(super) fn model() -> Model {
    let mut report = ServerReport::new("redis://127.0.0.1:6379");
    report.product = Some("Redis".to_owned());
    report.version = Some("7.0.15".to_owned());
    let server = Server::default().after(&[report]);
    let mut model = Model::new("dlock", server);
    let settle = holder("billing@host-3/4711", Some("shop::orders::settle"));
    let picture = Picture {
        locks: vec![
            lock(
                "order:42",
                Some(settle),
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
            lock("evil\u{1b}[2J\u{202e}key", Some(foreign()), Vec::new()),
            lock("orphan", None, vec![waiter("mail@host-5/9", 9, false)]),
        ],
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
