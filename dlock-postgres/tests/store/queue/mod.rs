//! Requests at random, beside a queue in plain words: their answers, and what they do to holders, waiters, numbers, times, messages
//! and the durability of their commit.

mod model;

use std::{collections::BTreeMap, fmt::Write as _};

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::{Client, Notification, SimpleQueryMessage};

use self::model::{EXCLUSIVE, Effects, Holder, Queue, Request, SHARED, Server};
use crate::{database::Database, messages::stranger};

const RUNS: u64 = 24;
const STEPS: usize = 80;

/// Two keys of the same owners, one of which begins as the other does.
const KEYS: [&str; 2] = ["order:42", "order:42 b"];

/// Microseconds since 1970.
const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

const SECOND: i64 = 1_000_000;

/// For which a waiter counts as alive, and has the key when it was granted.
const A_WHILE: i64 = 3 * SECOND;

/// The beginning of 2024, from which numbers count units of ten microseconds.
const BEGIN: i64 = 1_704_067_200 * SECOND;

/// What is added to the time of a waiter, so that a machine that stands still changes nothing.
const PATIENCE: i64 = 86_400 * SECOND;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// An owner of one of three clients.
    fn owner(&mut self) -> String {
        let claim = self.below(3) + 1;
        format!("{}.{claim}", client(self.below(3)))
    }
}

fn client(number: usize) -> String {
    let part = format!("{:08x}", number + 10);
    part.repeat(4)
}

/// What is done with one of the keys.
#[derive(Clone, Debug)]
enum Step {
    Acquire {
        owner: String,
        most: i32,
        waits: bool,
        ttl: i64,
        label: &'static str,
        function: &'static str,
    },
    Release(String),
    Renew {
        owners: Vec<String>,
        ttl: i64,
        label: &'static str,
        function: &'static str,
    },
    /// The leases of these owners, with the fence of each or a lower one.
    Fence(Vec<(String, i64)>),
    Adopt(String, i64),
    Unlock(Option<String>, i64),
    /// A lease ends, or a waiter no longer asks.
    Ends(String),
    Dies(String),
    /// The server has crashed, and with it the table of waiters.
    Crash,
    /// Its clock was ahead, and has been set back.
    ClockIsSetBack,
    /// The rows of the keys were removed.
    Forget,
    /// The tables have just come from version 1, whose holders have no numbers.
    Upgrade,
}

/// A row of an answer, whose first column says what it is.
type Row = Vec<Option<String>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct HolderRow {
    fence: i64,
    number: i64,
    ends: i64,
    label: Option<String>,
    function: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct WaiterRow {
    place: i64,
    most: i32,
    alive: i64,
    since: i64,
    label: Option<String>,
    number: Option<i64>,
    message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TurnRow {
    last: i64,
    epoch: i64,
    is_shared: bool,
    granted_at: i64,
    least: i64,
    head: i64,
}

/// The rows of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rows {
    holders: BTreeMap<String, HolderRow>,
    waiters: BTreeMap<String, WaiterRow>,
    turns: Vec<TurnRow>,
}

fn whole(row: &Row, column: usize) -> Option<i64> {
    row[column].as_deref().map(|it| it.parse().unwrap())
}

impl Rows {
    /// Those of a key among these rows.
    fn of(rows: &[Row], key: &str) -> Self {
        let mut read = Self::default();
        for row in rows.iter().filter(|row| row[1].as_deref() == Some(key)) {
            let number = |column| whole(row, column).unwrap();
            let owner = || row[2].clone().unwrap();
            match row[0].as_deref().unwrap() {
                "holder" => {
                    let holder = HolderRow {
                        fence: number(3),
                        number: number(4),
                        ends: number(5),
                        label: row[6].clone(),
                        function: row[7].clone(),
                    };
                    read.holders.insert(owner(), holder);
                }
                "waiter" => {
                    let waiter = WaiterRow {
                        place: number(3),
                        most: i32::try_from(number(4)).unwrap(),
                        alive: number(5),
                        since: number(6),
                        label: row[7].clone(),
                        number: whole(row, 8),
                        message: row[9].clone(),
                    };
                    read.waiters.insert(owner(), waiter);
                }
                "turn" => read.turns.push(TurnRow {
                    last: number(2),
                    epoch: number(3),
                    is_shared: row[4].as_deref() == Some("t"),
                    granted_at: number(5),
                    least: number(6),
                    head: number(7),
                }),
                _ => {}
            }
        }
        read
    }
}

/// The statements that read all rows of both keys.
fn look() -> String {
    let micros = |column: &str| format!("(extract(epoch FROM {column}) * 1000000)::bigint");
    let keys = KEYS.map(|key| format!("'{key}'")).join(", ");
    format!(
        "SELECT 'holder', key, owner, fence, number, {}, label, function FROM dlock.holder WHERE key IN ({keys});
         SELECT 'waiter', key, owner, place, most, {}, {}, label, number, message FROM dlock.waiter WHERE key IN ({keys});
         SELECT 'turn', key, last_fence, epoch, is_shared, {}, least, head FROM dlock.turn WHERE key IN ({keys});",
        micros("ends"),
        micros("alive"),
        micros("since"),
        micros("granted_at"),
    )
}

/// What the server has chosen in a request.
struct Chosen<'a> {
    rows: &'a Rows,
    from: i64,
    to: i64,
}

impl Chosen<'_> {
    /// The clock, or one more than the last.
    fn check(&self, number: i64, last: i64) {
        let at = |time: i64| (last + 1).max((time - BEGIN).div_euclid(10));
        // The server computes with floating-point numbers, whose last digit may be another.
        assert!(
            (at(self.from - 10)..=at(self.to)).contains(&number),
            "{number} after {last}: neither the clock nor the next one"
        );
    }
}

impl Server for Chosen<'_> {
    fn number_of_grant(&self, owner: &str, last: i64, reserved: Option<i64>) -> i64 {
        let holder = self.rows.holders.get(owner);
        let number = holder
            .unwrap_or_else(|| panic!("{owner} was not granted the key"))
            .number;
        assert!(
            number > last,
            "broken promise: the token did not grow: {number} after {last}"
        );
        // Numbers from before the row was lost mean nothing.
        if last == 0 || reserved != Some(number) {
            self.check(number, last);
        }
        number
    }

    fn number_of_place(&self, owner: &str, last: i64) -> i64 {
        let waiter = self.rows.waiters.get(owner);
        let number = waiter.and_then(|it| it.number);
        let number = number.unwrap_or_else(|| panic!("{owner} has no place with a number"));
        self.check(number, last);
        number
    }
}

/// The message about a grant, or without a fence about an unlock.
fn message(key: &str, owner: &str, fence: i64, number: i64) -> String {
    let mut proof = String::new();
    let proven = format!("{fence} {number} {key} {owner}");
    for byte in &Sha256::digest(proven.as_bytes())[..16] {
        write!(proof, "{byte:02x}").unwrap();
    }
    let (_, claim) = owner.split_once('.').unwrap();
    format!("{claim} {fence} {number} {proof} {key}")
}

/// A database, and the two queues that it should have.
struct Bench {
    client: Client,
    received: UnboundedReceiver<Notification>,
    /// The setting of a session for its commits.
    commits: &'static str,
    queues: [Queue; 2],
    rows: [Rows; 2],
    done: Vec<String>,
}

/// What a request has answered.
struct Answered {
    from: i64,
    to: i64,
    commit: String,
    answers: Vec<Row>,
    rows: [Rows; 2],
    messages: Vec<String>,
}

impl Bench {
    /// Executes statements at once. Their first column says what a row is.
    async fn execute(&self, statements: &str) -> Vec<Row> {
        let done = self.client.simple_query(statements).await;
        let done = done.unwrap_or_else(|error| panic!("{error:?}: {statements}"));
        let rows = done.iter().filter_map(|it| match it {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|it| row.get(it).map(str::to_owned)))
            }
            _ => None,
        });
        rows.map(Iterator::collect).collect()
    }

    /// Executes a request in a transaction, and reads what has become of the rows.
    async fn request(&mut self, request: &str) -> Answered {
        let statements = format!(
            "BEGIN; SET LOCAL synchronous_commit = {};
             SELECT 'from', {NOW};
             SELECT 'answer', it.* FROM {request} it;
             SELECT 'to', {NOW}, current_setting('synchronous_commit');
             COMMIT; {}
             SELECT 'end', pg_notify('dlock_end', '')",
            self.commits,
            look()
        );
        let rows = self.execute(&statements).await;
        let one = |name: &str| {
            rows.iter()
                .find(|row| row[0].as_deref() == Some(name))
                .unwrap()
        };
        let mut messages = Vec::new();
        loop {
            let received = self.received.recv().await.unwrap();
            if received.channel() == "dlock_end" {
                break;
            }
            messages.push(format!("{} {}", received.channel(), received.payload()));
        }
        messages.sort_unstable();
        let is_answer = |row: &&Row| row[0].as_deref() == Some("answer");
        Answered {
            from: whole(one("from"), 1).unwrap(),
            to: whole(one("to"), 1).unwrap(),
            commit: one("to")[2].clone().unwrap(),
            answers: rows.iter().filter(is_answer).cloned().collect(),
            rows: KEYS.map(|key| Rows::of(&rows, key)),
            messages,
        }
    }

    /// Something that happens to the rows without a request.
    async fn happen(&mut self, statements: &str) {
        let rows = self.execute(&format!("{statements}; {}", look())).await;
        self.rows = KEYS.map(|key| Rows::of(&rows, key));
    }

    /// Puts off the end of all that ends soon.
    async fn be_patient(&mut self) {
        let later = format!("interval '{PATIENCE} microseconds'");
        let soon = "BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + interval '1 hour'";
        let more = format!(
            "UPDATE dlock.holder SET ends = ends + {later} WHERE ends {soon};
             UPDATE dlock.waiter SET alive = alive + {later} WHERE alive {soon}"
        );
        self.happen(&more).await;
    }

    /// The rows of each key are those of its queue.
    fn check_rows(&self, rows: &[Rows; 2]) {
        for (queue, rows) in self.queues.iter().zip(rows) {
            let holders: BTreeMap<_, _> = rows
                .holders
                .iter()
                .map(|(owner, it)| {
                    let parts = (it.fence, it.number, it.label.clone(), it.function.clone());
                    (owner.clone(), parts)
                })
                .collect();
            let expected: BTreeMap<_, _> = queue
                .holders
                .iter()
                .map(|it| {
                    let parts = (it.fence, it.number, it.label.clone(), it.function.clone());
                    (it.owner.clone(), parts)
                })
                .collect();
            assert_eq!(holders, expected, "holders");
            let mut waiters: Vec<_> = rows.waiters.iter().collect();
            waiters.sort_by_key(|(_, it)| it.place);
            let waiters: Vec<_> = waiters
                .into_iter()
                .map(|(owner, it)| (owner.clone(), it.most, it.label.clone(), it.number))
                .collect();
            let expected: Vec<_> = queue
                .waiters
                .iter()
                .map(|it| (it.owner.clone(), it.most, it.label.clone(), it.number))
                .collect();
            assert_eq!(waiters, expected, "waiters");
            assert_eq!(rows.turns.len(), usize::from(queue.has_row));
            for turn in &rows.turns {
                let numbers = (turn.last, turn.epoch, turn.is_shared);
                assert_eq!(numbers, (queue.last, queue.epoch, queue.is_shared), "turn");
                let least = rows.holders.values().map(|it| it.number).min();
                assert!(least.is_none_or(|it| turn.least <= it), "least: {turn:?}");
                let head = rows.waiters.values().map(|it| it.place).min();
                assert!(head.is_none_or(|it| turn.head <= it), "head: {turn:?}");
            }
        }
    }

    /// The times of a key: those that a request gives, and those that it leaves alone. `held` has the TTLs that are given.
    fn check_times(
        &self,
        key: usize,
        answered: &Answered,
        held: &BTreeMap<String, i64>,
        asked: Option<&str>,
    ) {
        let given = |time: i64, length: i64| {
            (answered.from + length..=answered.to + length).contains(&time)
        };
        let (before, after) = (&self.rows[key], &answered.rows[key]);
        for (owner, row) in &after.holders {
            match held.get(owner) {
                Some(ttl) => assert!(given(row.ends, *ttl), "ends of {owner}: {row:?}"),
                None => assert_eq!(row.ends, before.holders[owner].ends, "ends of {owner}"),
            }
        }
        for (owner, row) in &after.waiters {
            let earlier = before.waiters.get(owner);
            let is_new = earlier.is_none_or(|it| it.place != row.place);
            if asked == Some(owner) {
                assert!(given(row.alive, A_WHILE), "alive: {row:?}");
            } else {
                assert_eq!(Some(row.alive), earlier.map(|it| it.alive), "alive");
            }
            if is_new {
                assert_eq!(asked, Some(&**owner));
                assert!(given(row.since, 0), "since: {row:?}");
                let text = row.number.map(|it| message(KEYS[key], owner, it, it));
                assert_eq!(row.message, text, "the message is that of the number");
            } else {
                assert_eq!(Some(row.since), earlier.map(|it| it.since), "since");
                assert_eq!(row.message, earlier.unwrap().message);
            }
        }
        if let (Some(before), Some(after)) = (before.turns.first(), after.turns.first()) {
            if after.last == before.last {
                assert_eq!(after.granted_at, before.granted_at, "no grant was made");
            } else {
                assert!(given(after.granted_at, 0), "when the grant was made");
            }
        }
    }

    fn check_messages(&self, key: usize, answered: &Answered, effects: &Effects) {
        let queue = &self.queues[key];
        let granted = effects.granted.iter().map(|owner| {
            let holder = queue.holder(owner).unwrap();
            (owner, holder.fence, holder.number)
        });
        let unlocked = effects.unlocked.iter().map(|owner| (owner, 0, 0));
        let mut messages: Vec<_> = granted
            .chain(unlocked)
            .map(|(owner, fence, number)| {
                let text = message(KEYS[key], owner, fence, number);
                format!("dlock_{} {text}", &owner[..8])
            })
            .collect();
        messages.sort_unstable();
        assert_eq!(answered.messages, messages, "messages");
    }

    /// What a commit that gives a lease has as its setting.
    fn durable(&self) -> &'static str {
        if self.commits == "off" {
            "on"
        } else {
            self.commits
        }
    }

    /// Does a step with a key, and checks all that comes of it.
    async fn take(&mut self, key: usize, step: &Step) {
        match step {
            Step::Acquire {
                owner,
                most,
                waits,
                ttl,
                label,
                function,
            } => {
                let request = Request {
                    owner,
                    most: *most,
                    waits: *waits,
                    label,
                    function,
                };
                self.acquire(key, request, *ttl).await;
            }
            Step::Release(owner) => self.release(key, owner).await,
            Step::Renew {
                owners,
                ttl,
                label,
                function,
            } => self.renew(key, owners, *ttl, label, function).await,
            Step::Fence(leases) => self.fence(key, leases).await,
            Step::Adopt(owner, fence) => self.adopt(key, owner, *fence).await,
            Step::Unlock(owner, fence) => self.unlock(key, owner.as_deref(), *fence).await,
            other => self.befall(key, other).await,
        }
        self.be_patient().await;
    }

    async fn acquire(&mut self, key: usize, request: Request<'_>, ttl: i64) {
        let name = KEYS[key];
        let (mut effects, mut held) = (Effects::default(), BTreeMap::new());
        let Request {
            owner,
            most,
            waits,
            label,
            function,
        } = request;
        let call = format!(
            "dlock.acquire('{name}', '{owner}', {}, {most}, {waits}, '{label}', '{function}')",
            ttl / 1000
        );
        let answered = self.request(&call).await;
        let chosen = answered.chosen(key);
        let is_granted = self.queues[key].acquire(request, &chosen, &mut effects);
        held.extend(effects.granted.iter().map(|it| (it.clone(), A_WHILE)));
        if is_granted {
            held.insert(owner.to_owned(), ttl);
        }
        let has_place = self.queues[key].place(owner).is_some();
        let asked = (has_place && waits).then_some(owner);
        let commit = if is_granted || !effects.granted.is_empty() {
            self.durable()
        } else {
            "off"
        };
        assert_eq!(answered.commit, commit, "a grant is durable");
        self.check(key, &answered, &effects, &held, asked);
        self.check_acquired(key, &answered, request, is_granted);
    }

    async fn release(&mut self, key: usize, owner: &str) {
        let name = KEYS[key];
        let (mut effects, mut held) = (Effects::default(), BTreeMap::new());
        let answered = self
            .request(&format!("dlock.release('{name}', '{owner}')"))
            .await;
        let had_row = self.queues[key].has_row;
        let was_held = self.queues[key].release(owner, &answered.chosen(key), &mut effects);
        held.extend(effects.granted.iter().map(|it| (it.clone(), A_WHILE)));
        let commit = match (effects.granted.is_empty(), had_row) {
            (false, _) => self.durable(),
            (true, true) => "off",
            (true, false) => self.commits,
        };
        assert_eq!(answered.commit, commit, "a grant is durable");
        assert_eq!(answered.is_true(), was_held, "whether it was held");
        self.check(key, &answered, &effects, &held, None);
    }

    async fn renew(
        &mut self,
        key: usize,
        owners: &[String],
        ttl: i64,
        label: &str,
        function: &str,
    ) {
        let name = KEYS[key];
        let (effects, mut held) = (Effects::default(), BTreeMap::new());
        let list = |item: &dyn Fn(&String) -> String, of: &str| {
            let items: Vec<_> = owners.iter().map(item).collect();
            format!("ARRAY[{}]::{of}[]", items.join(", "))
        };
        let call = format!(
            "dlock.renew({}, {}, {}, {}, {})",
            list(&|_| format!("'{name}'"), "text"),
            list(&|owner| format!("'{owner}'"), "text"),
            list(&|_| (ttl / 1000).to_string(), "bigint"),
            list(&|_| format!("'{label}'"), "text"),
            list(&|_| format!("'{function}'"), "text"),
        );
        let answered = self.request(&call).await;
        let mut expected = Vec::new();
        for (index, owner) in (1..).zip(owners) {
            if self.queues[key].renew(owner, label, function) {
                expected.push(index);
                held.insert(owner.clone(), ttl);
            }
        }
        let mut renewed: Vec<_> = answered
            .answers
            .iter()
            .map(|row| whole(row, 1).unwrap())
            .collect();
        renewed.sort_unstable();
        assert_eq!(renewed, expected, "the renewed leases");
        assert_eq!(answered.commit, self.durable(), "a renewal is durable");
        self.check(key, &answered, &effects, &held, None);
    }

    async fn fence(&mut self, key: usize, leases: &[(String, i64)]) {
        let name = KEYS[key];
        let (effects, held) = (Effects::default(), BTreeMap::new());
        let list = |item: &dyn Fn(&(String, i64)) -> String, of: &str| {
            let items: Vec<_> = leases.iter().map(item).collect();
            format!("ARRAY[{}]::{of}[]", items.join(", "))
        };
        let call = format!(
            "dlock.fence({}, {}, {})",
            list(&|_| format!("'{name}'"), "text"),
            list(&|(owner, _)| format!("'{owner}'"), "text"),
            list(&|(_, fence)| fence.to_string(), "bigint"),
        );
        let answered = self.request(&call).await;
        let queue = &self.queues[key];
        // Whether they have ended or not: nobody else has got the key.
        let are_held = leases
            .iter()
            .all(|(owner, fence)| queue.holder(owner).is_some_and(|it| it.fence == *fence));
        let answer = answered.answers[0][1].as_deref();
        assert_eq!(
            answer,
            (!are_held).then_some(name),
            "broken promise: a check is wrong"
        );
        assert_eq!(answered.commit, self.commits, "the commit is the caller's");
        self.check(key, &answered, &effects, &held, None);
    }

    async fn adopt(&mut self, key: usize, owner: &str, fence: i64) {
        let name = KEYS[key];
        let (effects, held) = (Effects::default(), BTreeMap::new());
        let answered = self
            .request(&format!("dlock.adopt('{name}', '{owner}', {fence})"))
            .await;
        let queue = &mut self.queues[key];
        let is_meant = |it: &Holder| it.owner == owner && it.fence == fence;
        let is_held = queue.holders.iter().any(is_meant);
        queue.holders.retain(|it| !is_meant(it));
        assert_eq!(answered.is_true(), is_held, "whether it was held");
        assert_eq!(answered.commit, self.commits, "the commit is the caller's");
        self.check(key, &answered, &effects, &held, None);
    }

    async fn unlock(&mut self, key: usize, owner: Option<&str>, fence: i64) {
        let name = KEYS[key];
        let (mut effects, mut held) = (Effects::default(), BTreeMap::new());
        let whose = owner.map_or_else(|| "NULL".to_owned(), |it| format!("'{it}'"));
        let answered = self
            .request(&format!("dlock.unlock('{name}', {whose}, {fence})"))
            .await;
        let queue = &mut self.queues[key];
        let was_held = queue.unlock(owner, fence, &answered.chosen(key), &mut effects);
        held.extend(effects.granted.iter().map(|it| (it.clone(), A_WHILE)));
        assert_eq!(answered.is_true(), was_held, "whether it was held");
        let commit = if was_held {
            self.durable()
        } else {
            self.commits
        };
        assert_eq!(answered.commit, commit, "an unlock is durable");
        self.check(key, &answered, &effects, &held, None);
    }

    /// Something happens without a request.
    async fn befall(&mut self, key: usize, step: &Step) {
        let name = KEYS[key];
        match step {
            Step::Ends(owner) => {
                let past = format!(
                    "UPDATE dlock.holder SET ends = clock_timestamp() - interval '2 hours' \
                     WHERE key = '{name}' AND owner = '{owner}'"
                );
                self.happen(&past).await;
                let holders = self.queues[key].holders.iter_mut();
                holders
                    .filter(|it| it.owner == *owner)
                    .for_each(|it| it.has_ended = true);
            }
            Step::Dies(owner) => {
                let past = format!(
                    "UPDATE dlock.waiter SET alive = clock_timestamp() - interval '2 hours' \
                     WHERE key = '{name}' AND owner = '{owner}'"
                );
                self.happen(&past).await;
                let waiters = self.queues[key].waiters.iter_mut();
                waiters
                    .filter(|it| it.owner == *owner)
                    .for_each(|it| it.is_dead = true);
            }
            Step::Crash => {
                self.happen("TRUNCATE dlock.waiter RESTART IDENTITY").await;
                self.queues.iter_mut().for_each(|it| it.waiters.clear());
            }
            Step::ClockIsSetBack => {
                let ahead = 7200 * 100_000;
                let set = format!(
                    "UPDATE dlock.turn SET last_fence = last_fence + {ahead} WHERE key = '{name}'"
                );
                self.happen(&set).await;
                if self.queues[key].has_row {
                    self.queues[key].last += ahead;
                }
            }
            Step::Forget => {
                self.happen(&format!("DELETE FROM dlock.turn WHERE key = '{name}'"))
                    .await;
                let Queue {
                    holders, waiters, ..
                } = std::mem::take(&mut self.queues[key]);
                self.queues[key] = Queue {
                    holders,
                    waiters,
                    ..Queue::default()
                };
            }
            Step::Upgrade => {
                let old = format!(
                    "UPDATE dlock.holder SET number = 0 WHERE key = '{name}';
                     UPDATE dlock.turn SET least = 0, head = 0 WHERE key = '{name}'"
                );
                self.happen(&old).await;
                self.queues[key]
                    .holders
                    .iter_mut()
                    .for_each(|it| it.number = 0);
            }
            _ => unreachable!("it is a request"),
        }
    }

    fn check(
        &self,
        key: usize,
        answered: &Answered,
        effects: &Effects,
        held: &BTreeMap<String, i64>,
        asked: Option<&str>,
    ) {
        self.check_rows(&answered.rows);
        self.check_times(key, answered, held, asked);
        assert_eq!(
            answered.rows[1 - key],
            self.rows[1 - key],
            "the other key is left alone"
        );
        self.check_messages(key, answered, effects);
    }

    /// The answer to a request for a lease.
    fn check_acquired(
        &self,
        key: usize,
        answered: &Answered,
        request: Request<'_>,
        is_granted: bool,
    ) {
        let [
            _,
            granted,
            fence,
            last,
            place,
            label,
            function,
            rest,
            others,
        ] = &*answered.answers[0]
        else {
            panic!("{:?}", answered.answers);
        };
        let queue = &self.queues[key];
        assert_eq!(
            granted.as_deref() == Some("t"),
            is_granted,
            "whether it is granted"
        );
        let number = |it: &Option<String>| it.as_deref().map(|it| it.parse::<i64>().unwrap());
        if is_granted {
            let own = queue.holder(request.owner).unwrap();
            assert_eq!(number(fence), Some(own.fence), "the fence");
            return;
        }
        let expected = queue
            .place(request.owner)
            .map(|it| i64::try_from(it).unwrap());
        assert_eq!(number(place), expected, "the place");
        assert_eq!(number(last), Some(queue.last), "the last fence");
        assert_eq!(
            number(others),
            i64::try_from(queue.holders.len() - 1).ok(),
            "the others"
        );
        // The holder that is shown is the one whose lease ends last, and a permit may be there when the first one has ended.
        let rows = &answered.rows[key];
        let ends = |it: &&Holder| rows.holders[&it.owner].ends;
        let shown = queue.holders.iter().max_by_key(ends).unwrap();
        let holder = (number(fence), label, function);
        assert_eq!(holder, (Some(shown.fence), &shown.label, &shown.function));
        let all = rows.holders.values().map(|it| it.ends);
        let free = if request.most > 0 {
            all.min()
        } else {
            all.max()
        };
        let left = |now: i64| (free.unwrap() - now + 999).div_euclid(1000);
        let rest = number(rest).unwrap();
        assert!(
            (left(answered.to)..=left(answered.from)).contains(&rest),
            "the rest: {rest}"
        );
    }

    /// The next step with a key.
    fn next(&self, key: usize, random: &mut Random) -> Step {
        let queue = &self.queues[key];
        let owner = random.owner();
        let holder = match queue.holders.len() {
            0 => None,
            count => Some(&queue.holders[random.below(count)]),
        };
        // Most often one that is there.
        let some = match holder {
            Some(holder) if random.below(4) > 0 => (holder.owner.clone(), holder.fence),
            _ => (owner.clone(), holder.map_or(1, |it| it.fence)),
        };
        let lower = i64::from(random.below(6) == 0);
        let seen = (some.0.clone(), some.1 - lower);
        // Longer than the test takes.
        let ttl = 1000 * i64::try_from(7_200_000 + random.below(10_000_000)).unwrap();
        let (label, function) = random.of(&[("", ""), ("a", ""), ("b", "f"), ("", "g")]);
        match random.below(100) {
            0..45 => Step::Acquire {
                owner,
                most: random.of(&[EXCLUSIVE, EXCLUSIVE, SHARED, SHARED, 1, 2, 3]),
                waits: random.below(5) > 0,
                ttl,
                label,
                function,
            },
            45..66 => Step::Release(some.0),
            66..73 => Step::Renew {
                owners: vec![some.0, random.owner(), owner],
                ttl,
                label,
                function,
            },
            73..77 => {
                let mut leases = vec![seen];
                if random.below(2) > 0 {
                    leases.extend(holder.map(|it| (it.owner.clone(), it.fence)));
                }
                Step::Fence(leases)
            }
            77..79 => Step::Adopt(seen.0, seen.1),
            79..84 => Step::Unlock((random.below(2) > 0).then_some(seen.0), seen.1),
            84..89 => Step::Ends(some.0),
            89..94 => match queue.waiters.len() {
                0 => Step::Release(owner),
                count => Step::Dies(queue.waiters[random.below(count)].owner.clone()),
            },
            94 => Step::Crash,
            95 => Step::ClockIsSetBack,
            96 => Step::Forget,
            97 => Step::Upgrade,
            _ => Step::Release(owner),
        }
    }
}

impl Answered {
    fn chosen(&self, key: usize) -> Chosen<'_> {
        Chosen {
            rows: &self.rows[key],
            from: self.from,
            to: self.to,
        }
    }

    fn is_true(&self) -> bool {
        self.answers[0][1].as_deref() == Some("t")
    }
}

/// Says what was done, if a check fails.
impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.done.join("\n"));
        }
    }
}

#[tokio::test]
async fn each_request_does_what_a_plain_queue_does() {
    let database = Database::new().await;
    let (listener, received) = stranger(&database).await;
    for channel in (0..3).map(|it| format!("dlock_{}", &client(it)[..8])) {
        listener
            .batch_execute(&format!("LISTEN {channel}"))
            .await
            .unwrap();
    }
    listener.batch_execute("LISTEN dlock_end").await.unwrap();
    let mut bench = Bench {
        client: database.client().await,
        received,
        commits: "on",
        queues: Default::default(),
        rows: Default::default(),
        done: Vec::new(),
    };
    for run in 0..RUNS {
        let mut random = Random(run);
        bench.commits = random.of(&["on", "off", "local"]);
        bench.done = vec![format!("run {run}, synchronous_commit = {}", bench.commits)];
        bench.queues = Default::default();
        bench
            .happen("TRUNCATE dlock.turn, dlock.holder, dlock.waiter")
            .await;
        for _ in 0..STEPS {
            let key = random.below(2);
            let step = bench.next(key, &mut random);
            bench.done.push(format!("{}: {step:?}", KEYS[key]));
            bench.take(key, &step).await;
        }
    }
}
