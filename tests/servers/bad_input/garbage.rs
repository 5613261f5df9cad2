//! Servers that answer garbage: bytes, or replies that no Redis would give.
//!
//! Whatever they say, there is an error in time and no panic; nobody gets a lease, and none is
//! renewed.

use std::{
    cell::Cell,
    panic,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockError, LockManager, LostCause};
use dlock_testkit::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use crate::common::{LIMIT, assert_idle, is_lost, soon};

/// What a server makes sense of before it begins with garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    /// Nothing.
    None,
    /// What a connection needs to be made.
    Courtesy,
    /// That, and it is the only node, or the master.
    Topology,
    /// That, and it grants what it is asked for, until it goes bad.
    Grants,
}

/// A server for as long as it lives.
struct Garbage {
    port: u16,
    /// How many scripts were answered with it.
    answered: Arc<AtomicUsize>,
    is_bad: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl Garbage {
    async fn start(sense: Sense, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answered = Arc::<AtomicUsize>::default();
        let is_bad = Arc::<AtomicBool>::default();
        let server = Arc::new(Server {
            sense,
            port,
            random: Random(AtomicU64::new(seed)),
            speaks_resp2: AtomicBool::new(false),
            is_bad: is_bad.clone(),
            answered: answered.clone(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = server.clone();
                connections.spawn(async move { server.serve(stream).await.unwrap_or(()) });
            }
        });
        Self {
            port,
            answered,
            is_bad,
            _tasks: tasks,
        }
    }
}

struct Server {
    sense: Sense,
    port: u16,
    random: Random,
    speaks_resp2: AtomicBool,
    is_bad: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Server {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut asked = Vec::new();
        loop {
            if stream.read_buf(&mut asked).await? == 0 {
                return Ok(());
            }
            while let Some((words, length)) = command(&asked) {
                asked.drain(..length);
                if let Some(answer) = self.sense(&words) {
                    stream.write_all(answer.as_bytes()).await?;
                    continue;
                }
                stream.write_all(&self.garbage()).await?;
                if is_script(&words) {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                if self.random.below(8) == 0 {
                    // In the middle of it, perhaps.
                    return Ok(());
                }
            }
        }
    }

    /// What is no garbage.
    fn sense(&self, words: &[String]) -> Option<String> {
        let name = words[0].to_ascii_uppercase();
        let port = self.port;
        match (self.sense, name.as_str()) {
            (Sense::None, _) => None,
            (_, "HELLO") => {
                let is_resp2 = words.get(1).is_none_or(|version| version != "3");
                self.speaks_resp2.store(is_resp2, Ordering::Relaxed);
                Some(if is_resp2 { "*0\r\n" } else { "%0\r\n" }.to_owned())
            }
            (_, "SUBSCRIBE") => {
                // Both versions of the protocol have the same after the first character.
                let kind = if self.speaks_resp2.load(Ordering::Relaxed) {
                    '*'
                } else {
                    '>'
                };
                let confirm = |(number, channel): (usize, &String)| {
                    let (length, number) = (channel.len(), number + 1);
                    format!("{kind}3\r\n$9\r\nsubscribe\r\n${length}\r\n{channel}\r\n:{number}\r\n")
                };
                Some(words[1..].iter().enumerate().map(confirm).collect())
            }
            (_, "ASKING" | "AUTH" | "CLIENT" | "PING" | "SCRIPT" | "SELECT") => {
                Some("+OK\r\n".to_owned())
            }
            (Sense::Topology | Sense::Grants, "CLUSTER") => Some(format!(
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"
            )),
            (Sense::Topology | Sense::Grants, "SENTINEL") => {
                let is_epoch = words[1].eq_ignore_ascii_case("MASTER");
                Some(if is_epoch {
                    "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n".to_owned()
                } else {
                    let length = port.to_string().len();
                    format!("*2\r\n$9\r\n127.0.0.1\r\n${length}\r\n{port}\r\n")
                })
            }
            (Sense::Grants, _) if !self.is_bad.load(Ordering::Relaxed) => match name.as_str() {
                _ if is_script(words) => Some(":7\r\n".to_owned()),
                // Each is on the connection on which the lock is asked for: who the server is, and
                // who the process is.
                "INFO" | "SET" => Some("+OK\r\n".to_owned()),
                _ => None,
            },
            _ => None,
        }
    }

    /// One that is a grant by accident would be one.
    fn garbage(&self) -> Vec<u8> {
        loop {
            let garbage = self.random.garbage();
            if !could_be_a_number(&garbage) {
                return garbage;
            }
        }
    }
}

fn is_script(words: &[String]) -> bool {
    words[0].to_ascii_uppercase().starts_with("EVAL")
}

/// Whether a client may find a reply in it that is a number: wherever it begins to read again.
fn could_be_a_number(garbage: &[u8]) -> bool {
    let is_array = garbage.first().is_some_and(|byte| b"*%~>|".contains(byte));
    let well_formed = redis::parse_redis_value(garbage).is_ok();
    let mut lines = garbage.split(|byte| *byte == b'\n');
    let starts = |line: &[u8]| {
        let rest = line.strip_prefix(b":")?.trim_ascii_start();
        rest.first()
            .map(|byte| byte.is_ascii_digit() || *byte == b'+')
    };
    // Those inside of what is well formed are parts of it.
    !(is_array && well_formed) && lines.any(|line| starts(line).unwrap_or(false))
}

/// The words of the first command in `bytes`, and how long it is.
fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| -> Option<usize> {
        let rest = bytes.get(*at..)?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let number = str::from_utf8(&rest[1..end]).ok()?.parse().ok();
        *at += end + 2;
        number
    };
    let count = number(&mut at)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = number(&mut at)?;
        let word = bytes.get(at..at + length)?;
        words.push(String::from_utf8_lossy(word).into_owned());
        at += length + 2;
    }
    (at <= bytes.len() && !words.is_empty()).then_some((words, at))
}

/// The same for the same seed, as far as requests come in the same order.
struct Random(AtomicU64);

impl Random {
    fn next(&self) -> u64 {
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn garbage(&self) -> Vec<u8> {
        match self.below(4) {
            0 => (0..self.below(64)).map(|_| self.byte()).collect(),
            1 => {
                // A reply with something wrong in it.
                let mut reply = self.reply(0);
                for _ in 0..=self.below(3) {
                    let at = usize::try_from(self.below(reply.len() as u64)).unwrap();
                    match self.below(3) {
                        0 => reply[at] = self.byte(),
                        1 => reply.truncate(at.max(1)),
                        _ => reply.insert(at, self.byte()),
                    }
                }
                reply
            }
            _ => self.reply(0),
        }
    }

    fn byte(&self) -> u8 {
        const LIKELY: &[u8] = b"\r\n:$*+-_#,(%~>|!=0159a \xff";
        let likely = usize::try_from(self.below(LIKELY.len() as u64)).unwrap();
        match self.below(4) {
            0 => u8::try_from(self.below(256)).unwrap(),
            _ => LIKELY[likely],
        }
    }

    /// A reply of any sort.
    fn reply(&self, depth: u32) -> Vec<u8> {
        const LINES: &[&str] = &[
            "+OK",
            "+QUEUED",
            "+",
            "_",
            "$-1",
            "*-1",
            "*0",
            "#t",
            "#f",
            ",1.5",
            ",inf",
            "(12345678901234567890",
            ":-1",
            ":-9223372036854775808",
            ":9223372036854775808",
            ":",
            "$0\r\n",
            "$1\r\n1",
            "$36\r\n0123456789abcdef0123456789abcdef.7 1",
            "=5\r\ntxt:1",
            "%0",
            "~0",
            ">0",
            "-",
            "-ERR",
            "-ERR unknown command",
            "-MOVED 5 127.0.0.1:1",
            "-MOVED 5 ?:1",
            "-MOVED",
            "-ASK 5 127.0.0.1:1",
            "-TRYAGAIN",
            "-CLUSTERDOWN",
            "-NOSCRIPT",
            "-LOADING",
            "-READONLY",
            "-NOAUTH",
            "-NOPERM",
            "-MISCONF",
            "-OOM",
            "-BUSY",
            "-WRONGTYPE",
            "-MASTERDOWN",
            "!5\r\nERR a",
        ];
        let number = |count: u64| format!("{count}\r\n").into_bytes();
        match self.below(8) {
            0 | 1 if depth < 3 => {
                let count = self.below(7);
                let mut reply = match self.below(3) {
                    0 => [b"~".to_vec(), number(count)].concat(),
                    _ => [b"*".to_vec(), number(count)].concat(),
                };
                for _ in 0..count {
                    reply.extend(self.reply(depth + 1));
                }
                reply
            }
            2 if depth > 0 => [b":".to_vec(), number(self.below(1000))].concat(),
            // Nearly what says that it is busy.
            3 => b"*5\r\n:x\r\n:0\r\n:7\r\n$1\r\na\r\n:6\r\n".to_vec(),
            4 => format!("*4\r\n:-{}\r\n:-1\r\n:-7\r\n$1\r\na\r\n", self.below(99)).into_bytes(),
            _ => {
                let line = usize::try_from(self.below(LINES.len() as u64)).unwrap();
                format!("{}\r\n", LINES[line]).into_bytes()
            }
        }
    }
}

/// Panics inside of dlock and of what it is made of, of which a task would keep silent.
///
/// They are those of the calling test alone: all its tasks run on its thread.
fn panics_inside() -> usize {
    thread_local! {
        static PANICS: Cell<usize> = const { Cell::new(0) };
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let file = panic.location().map_or("", |place| place.file());
            if ["dlock-runtime", "registry"]
                .iter()
                .any(|part| file.contains(part))
            {
                PANICS.set(PANICS.get() + 1);
            }
            usual(panic);
        }));
    });
    PANICS.get()
}

/// Every way to reach servers, with that port.
fn urls(port: u16) -> [String; 4] {
    [
        format!("redis://127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{port}?protocol=resp2"),
        format!("redis-cluster://127.0.0.1:{port}"),
        format!("redis-sentinel://127.0.0.1:{port}/mymaster"),
    ]
}

fn manager(url: &str) -> LockManager {
    within(url, Duration::from_millis(300))
}

/// A manager with this time limit for a connection.
fn within(url: &str, limit: Duration) -> LockManager {
    LockManager::builder()
        .response_timeout(Duration::from_millis(200))
        .connect_timeout(limit)
        .wait(Duration::from_millis(400))
        .connect_lazy(url)
        .unwrap()
}

/// Asks one server for locks, until it has been asked for some at all.
async fn is_refused(sense: Sense, seed: u64, way: usize) {
    let server = Garbage::start(sense, seed).await;
    let url = &urls(server.port)[way];
    let manager = manager(url);
    // Sentinels and nodes of a cluster have to name a server first.
    let is_reached = sense == Sense::Topology || sense == Sense::Courtesy && way < 2;
    for number in 0..100 {
        let lock = manager.lock(format!("order:{number}"));
        let error = soon(lock.acquire()).await.expect_err(url);
        assert!(
            matches!(error, LockError::Unavailable { .. }),
            "{url} {sense:?} {seed}: {error}"
        );
        let shown = format!("{error} {error:?}");
        assert!(
            shown.len() < 2000 && !shown.contains(char::is_control),
            "{shown:?}"
        );
        if number >= 2 && (!is_reached || server.answered.load(Ordering::Relaxed) > 0) {
            let builder = LockManager::builder().connect_timeout(Duration::from_millis(300));
            // It may look well until something is asked for.
            soon(builder.connect(url)).await.ok();
            return;
        }
    }
    panic!("{url} {sense:?} {seed}: no garbage came as an answer to a script");
}

#[tokio::test]
async fn nobody_gets_a_lease_of_garbage() {
    let before = panics_inside();
    let mut cases = JoinSet::new();
    // All at once they would time out, and see none of it.
    let few = Arc::new(Semaphore::new(8));
    for seed in 0..8 {
        for sense in [Sense::None, Sense::Courtesy, Sense::Topology] {
            for way in 0..4 {
                let few = few.clone();
                cases.spawn(async move {
                    let _turn = few.acquire().await.unwrap();
                    is_refused(sense, seed, way).await;
                });
            }
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
    assert_eq!(panics_inside(), before);
}

#[tokio::test]
async fn no_lease_is_renewed_by_garbage() {
    let before = panics_inside();
    let mut cases = JoinSet::new();
    // Beside all others, no first connection might be made in its time, and all would begin again.
    let few = Arc::new(Semaphore::new(4));
    for seed in 0..10 {
        for way in 0..4 {
            let few = few.clone();
            cases.spawn(async move {
                let turn = few.acquire_owned().await.unwrap();
                let server = Garbage::start(Sense::Grants, seed).await;
                let url = &urls(server.port)[way];
                let manager = within(url, LIMIT);
                // Long enough for several renewals on a machine that is busy.
                let lock = manager.lock("order:42").ttl(Duration::from_secs(3));
                let guard = soon(lock.wait(LIMIT).acquire()).await.unwrap();
                drop(turn);
                server.is_bad.store(true, Ordering::Relaxed);
                // Nothing says that it is not ours, so it ends when its time is over.
                let outcome = Err::<(), _>(soon(guard.lost()).await);
                let at_its_end = |cause: &LostCause| {
                    matches!(cause, LostCause::NotRenewed { .. } | LostCause::Expired)
                };
                assert!(is_lost(&outcome, at_its_end), "{url} {seed}: {outcome:?}");
                let answered = server.answered.load(Ordering::Relaxed);
                drop(guard);
                (way, answered, manager)
            });
        }
    }
    let mut answered = [0; 4];
    while let Some(case) = cases.join_next().await {
        let (way, count, manager) = case.unwrap();
        answered[way] += count;
        assert_idle(&[&manager]).await;
    }
    let has_some = answered.iter().all(|count| *count > 0);
    assert!(has_some, "renewals are answered, by each way: {answered:?}");
    assert_eq!(panics_inside(), before);
}

/// One honest server among three cannot grant, and two can.
#[tokio::test]
async fn a_quorum_needs_a_majority_that_makes_sense() {
    let before = panics_inside();
    let honest = [
        dlock_testkit::RedisServer::start().await,
        dlock_testkit::RedisServer::start().await,
    ];
    for seed in 0..4 {
        let servers = [
            Garbage::start(Sense::Courtesy, seed).await,
            Garbage::start(Sense::None, seed).await,
        ];
        let [good, other] = honest.each_ref().map(dlock_testkit::RedisServer::port);
        let [bad, worse] = servers.each_ref().map(|server| server.port);
        let url = |ports: [u16; 3]| {
            let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
            format!("redlock://{hosts}")
        };
        let minority = manager(&url([good, bad, worse]));
        let error = soon(minority.lock("order:42").run(async |_| ())).await;
        assert!(error.is_err(), "{error:?}");
        eventually(LIMIT, "the honest one has nothing left", async || {
            let keys = honest[0].keys("dlock:{*").await;
            keys.is_empty()
        })
        .await;
        let majority = manager(&url([bad, good, other]));
        let lock = majority.lock("order:42").wait(LIMIT);
        assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
    }
    assert_eq!(panics_inside(), before);
}
