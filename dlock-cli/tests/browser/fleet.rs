//! A shop at work, as its locks look in the store: holders, waiters, shared locks and permits of several machines.
//!
//! Written as the protocol has it, since all processes of a test run on one machine.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;

use super::site::Site;

/// Leases and waiters outlive the test.
const LONG: u64 = 900_000;
/// Fences count from here, in 10 µs.
const YEAR_2024: u64 = 1_704_067_200_000;

const APPLICATIONS: [(&str, &str); 9] = [
    ("orders", "web-1/4107"),
    ("orders", "web-2/3988"),
    ("orders", "web-3/4051"),
    ("billing", "web-1/4180"),
    ("billing", "web-2/4012"),
    ("shipping", "web-3/4122"),
    ("shipping", "batch-1/977"),
    ("reports", "batch-1/1204"),
    ("reports", "batch-2/1187"),
];

const FUNCTIONS: [&str; 9] = [
    "shop::orders::settle",
    "shop::orders::settle",
    "shop::orders::refund",
    "shop::billing::charge",
    "shop::billing::close_day",
    "shop::shipping::pick",
    "shop::shipping::book_carrier",
    "shop::reports::monthly",
    "shop::reports::monthly",
];

/// The key whose holder changes with each turn.
pub(super) const STOCK: &str = "stock:4711";

/// The key with the longest wait.
pub(super) const REPORT: &str = "report:2026-11";

/// Shared locks with their holders.
const CATALOG: (&str, &[usize]) = ("catalog:prices", &[0, 1, 2, 5]);
const MAIL: (&str, &[usize]) = ("mail:gateway", &[3, 6]);

/// The TTL of a lease that was just renewed.
const LEASE: u64 = 29_600;

pub(super) struct Fleet {
    connection: MultiplexedConnection,
    /// The holder of `STOCK`, and those that wait for it.
    turns: VecDeque<usize>,
    count: u64,
}

/// Writes all of it.
pub(super) async fn start(site: &Site) -> Fleet {
    let mut fleet = Fleet {
        connection: site.server.connection().await,
        turns: VecDeque::from([0, 3, 5, 1]),
        count: 0,
    };
    let mut pipe = redis::pipe();
    for (number, (application, place)) in APPLICATIONS.iter().enumerate() {
        let record = format!(
            "{application}@{place} {} 0.1.0",
            now() - 3_700_000 * (number as u64 + 1)
        );
        set(
            &mut pipe,
            format!("dlock:process:{{{}}}", client(number)),
            record,
            LONG,
        );
    }
    fleet.work(&mut pipe);
    hold(&mut pipe, REPORT, 7, 98_000, LONG);
    wait(&mut pipe, REPORT, 8, "", 91_000);
    wait(&mut pipe, REPORT, 4, "", 40_300);
    share(&mut pipe, CATALOG, 4100);
    wait(&mut pipe, CATALOG.0, 4, "", 3600);
    share(&mut pipe, MAIL, 12_400);
    hold(&mut pipe, STOCK, fleet.turns[0], 300, LONG);
    for (place, waiter) in fleet.turns.iter().skip(1).enumerate() {
        wait(&mut pipe, STOCK, *waiter, "", 250 - place as u64 * 60);
    }
    pipe.exec_async(&mut fleet.connection)
        .await
        .expect("the server writes");
    fleet
}

impl Fleet {
    /// Short work on orders and invoices: other locks and holders each time.
    fn work(&mut self, pipe: &mut redis::Pipeline) {
        self.count += 1;
        for (place, turn) in (0..16).zip(self.count..) {
            let seed = (turn * 7) % 11;
            let kind = if place % 3 == 0 { "invoice" } else { "order" };
            let process = if kind == "invoice" {
                3 + usize::from(place % 2 == 0)
            } else {
                place % 3
            };
            let key = format!("{kind}:{}", 82_310 + place * 17);
            hold(pipe, &key, process, 40 + seed * 217, 30_000);
            if place % 5 == 1 {
                wait(pipe, &key, (process + 1) % 3, "", 20 + seed * 90);
            }
        }
    }

    /// The next waiter of `STOCK` becomes its holder, and short work goes on.
    pub(super) async fn turn(&mut self) {
        let mut pipe = redis::pipe();
        self.work(&mut pipe);
        let before = self.turns.pop_front().expect("there are four");
        let next = self.turns[0];
        for end in ["q", "a"] {
            pipe.cmd("ZREM")
                .arg(format!("dlock:{{{STOCK}}}:{end}"))
                .arg(owner(next, "w"))
                .ignore();
        }
        hold(&mut pipe, STOCK, next, 0, LEASE);
        let hint = format!("{} {} {STOCK}", owner(next, "w"), fence(0));
        pipe.cmd("PUBLISH")
            .arg(format!("dlock:wake:{}", client(next)))
            .arg(hint)
            .ignore();
        self.turns.push_back(before);
        wait(&mut pipe, STOCK, before, "", 0);
        pipe.exec_async(&mut self.connection)
            .await
            .expect("the server writes");
    }

    /// The holders renew their leases.
    pub(super) async fn renew(&mut self) {
        let mut pipe = redis::pipe();
        self.work(&mut pipe);
        for key in [STOCK, REPORT] {
            pipe.cmd("PEXPIRE")
                .arg(format!("dlock:{{{key}}}"))
                .arg(LEASE)
                .ignore();
        }
        // The epoch of a shared lock stays, and each holder has a later end.
        for (key, processes) in [CATALOG, MAIL] {
            leases(&mut pipe, key, processes, LEASE);
        }
        pipe.exec_async(&mut self.connection)
            .await
            .expect("the server writes");
    }
}

fn now() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is after 1970");
    u64::try_from(now.as_millis()).expect("it is before the year 500,000,000")
}

fn fence(age: u64) -> u64 {
    (now() - age - YEAR_2024) * 100
}

fn client(process: usize) -> String {
    format!("{:032x}", 0x5af3_107a_4000_u64 * (process as u64 + 3))
}

fn owner(process: usize, mode: &str) -> String {
    let number = if mode == "w" { 7 } else { 3 };
    format!("{}.{number}", client(process))
}

fn label(process: usize) -> String {
    let (application, place) = APPLICATIONS[process];
    format!("{application}@{place}#{}", FUNCTIONS[process])
}

fn set(pipe: &mut redis::Pipeline, key: String, value: String, life: u64) {
    pipe.cmd("SET")
        .arg(key)
        .arg(value)
        .arg("PX")
        .arg(life)
        .ignore();
}

fn hold(pipe: &mut redis::Pipeline, key: &str, process: usize, age: u64, life: u64) {
    let value = format!("{} {} {}", owner(process, "w"), fence(age), label(process));
    set(pipe, format!("dlock:{{{key}}}"), value, life);
}

fn wait(pipe: &mut redis::Pipeline, key: &str, process: usize, mode: &str, age: u64) {
    let member = format!("{}{mode}", owner(process, "w"));
    pipe.cmd("ZADD")
        .arg(format!("dlock:{{{key}}}:q"))
        .arg(now() - age)
        .arg(&member)
        .ignore();
    pipe.cmd("ZADD")
        .arg(format!("dlock:{{{key}}}:a"))
        .arg(now() + LONG)
        .arg(&member)
        .ignore();
}

fn share(pipe: &mut redis::Pipeline, (key, processes): (&str, &[usize]), age: u64) {
    let epoch = format!("{} {}", fence(age), now());
    pipe.cmd("HSET")
        .arg(format!("dlock:{{{key}}}"))
        .arg("!")
        .arg(epoch)
        .ignore();
    leases(pipe, key, processes, LONG);
}

fn leases(pipe: &mut redis::Pipeline, key: &str, processes: &[usize], life: u64) {
    let lock = format!("dlock:{{{key}}}");
    for process in processes {
        let value = format!("{} {}", now() + life, label(*process));
        pipe.cmd("HSET")
            .arg(&lock)
            .arg(owner(*process, "s"))
            .arg(value)
            .ignore();
    }
    pipe.cmd("PEXPIRE").arg(&lock).arg(life).ignore();
}

/// The time between two turns.
pub(super) const TURN: Duration = Duration::from_millis(2300);
