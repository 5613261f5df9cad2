//! One connection through the proxy, and the faults that all of them obey.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::prepared::Prepared;

/// The traffic that the proxy lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Open,
    RepliesHeld,
    Frozen,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

impl Flow {
    fn lets(self, direction: Direction) -> bool {
        match self {
            Self::Open => true,
            Self::RepliesHeld => direction == Direction::Request,
            Self::Frozen => false,
        }
    }
}

/// A request to wait for, and the moment at which its connection is cut, or its reply held back.
pub(super) struct Trap {
    text: Vec<u8>,
    at: TrapAt,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TrapAt {
    Request,
    Reply,
    /// From the reply on, all replies are held back.
    Replies,
    /// Nothing is cut: from this request on, nothing is forwarded.
    Frozen,
}

impl Trap {
    pub(super) fn new(text: &str, at: TrapAt) -> Self {
        Self {
            text: text.into(),
            at,
        }
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        has(bytes, &self.text)
    }
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    // `windows` knows no width of zero, and an empty text is in every request.
    text.is_empty() || bytes.windows(text.len()).any(|part| part == text)
}

/// The longest time for which a server may take to end a connection that was cut: it may be paused.
const PATIENCE_OF_END: Duration = Duration::from_secs(30);

/// A client is known by what it says at the beginning of a connection.
const BEGINNING: usize = 1024;

/// The beginning of what the client of one connection has said.
#[derive(Default)]
struct Beginning(Mutex<Vec<u8>>);

impl Beginning {
    fn hear(&self, bytes: &[u8]) {
        let mut heard = lock(&self.0);
        let rest = BEGINNING.saturating_sub(heard.len());
        heard.extend_from_slice(&bytes[..rest.min(bytes.len())]);
    }
}

/// What the proxy forwards.
#[derive(Clone)]
struct Rules {
    flow: Flow,
    /// Connections whose clients begin with a text that has this in it are frozen.
    isolated: Option<Vec<u8>>,
}

impl Rules {
    fn let_through(&self, direction: Direction, beginning: &Beginning) -> bool {
        let is_isolated = |text: &Vec<u8>| has(&lock(&beginning.0), text);
        self.flow.lets(direction) && !self.isolated.as_ref().is_some_and(is_isolated)
    }
}

/// A command that the server knows by another name.
#[derive(Clone)]
pub(super) struct Rename {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Rename {
    pub(super) fn new(from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len(), "lengths are not written anew");
        let word = |text: &str| format!("${}\r\n{text}\r\n", text.len()).into_bytes();
        Self {
            from: word(from),
            to: word(to),
        }
    }

    /// Renames the command in what has come so far, and takes what can be passed on: all but an end that may
    /// be the beginning of the name.
    fn take_from(&self, came: &mut Vec<u8>) -> Vec<u8> {
        let length = self.from.len();
        let places = (0..came.len()).filter(|at| came[*at..].starts_with(&self.from));
        for at in places.collect::<Vec<_>>() {
            came[at..at + length].copy_from_slice(&self.to);
        }
        let is_begun = |part: &usize| came.ends_with(&self.from[..*part]);
        let held = (1..length).rev().find(is_begun).unwrap_or(0);
        let rest = came.split_off(came.len() - held);
        std::mem::replace(came, rest)
    }
}

/// The state that the test sets and every connection looks at.
pub(super) struct Faults {
    rules: watch::Sender<Rules>,
    trap: Mutex<Option<Trap>>,
    /// The texts of the traps whose requests have not been passed on.
    held: Mutex<Vec<Vec<u8>>>,
    rename: Mutex<Option<Rename>>,
    /// For how long a client waits for a server that does not listen yet.
    patience: Duration,
    open: AtomicUsize,
    accepted: AtomicUsize,
    // Held while bytes are handed to a socket, so that none pass after `set_flow`.
    passing: Mutex<()>,
}

impl Faults {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            rules: watch::Sender::new(Rules {
                flow: Flow::Open,
                isolated: None,
            }),
            trap: Mutex::new(None),
            held: Mutex::default(),
            rename: Mutex::new(None),
            patience,
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            passing: Mutex::new(()),
        }
    }

    pub(super) fn set_flow(&self, flow: Flow) {
        let _passing = lock(&self.passing);
        self.rules.send_modify(|rules| rules.flow = flow);
    }

    pub(super) fn isolate(&self, text: Option<&str>) {
        let _passing = lock(&self.passing);
        let isolated = text.map(|text| text.as_bytes().to_vec());
        self.rules.send_modify(|rules| rules.isolated = isolated);
    }

    pub(super) fn set_trap(&self, trap: Trap) {
        *lock(&self.trap) = Some(trap);
    }

    pub(super) fn set_rename(&self, rename: Rename) {
        *lock(&self.rename) = Some(rename);
    }

    pub(super) fn is_trap_set(&self) -> bool {
        lock(&self.trap).is_some()
    }

    pub(super) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn accepted_connections(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }

    /// Takes the trap if these bytes are what it waits for.
    fn spring(&self, request: &[u8]) -> Option<(TrapAt, Held<'_>)> {
        let mut set = lock(&self.trap);
        let trap = set.take_if(|trap| trap.matches(request))?;
        // Before a test sees that the trap is gone: it may thaw at once.
        match trap.at {
            TrapAt::Replies => self.set_flow(Flow::RepliesHeld),
            TrapAt::Frozen => self.set_flow(Flow::Frozen),
            TrapAt::Request | TrapAt::Reply => {}
        }
        lock(&self.held).push(trap.text.clone());
        let held = Held {
            faults: self,
            text: trap.text,
        };
        Some((trap.at, held))
    }

    pub(super) fn holds(&self, text: &str) -> bool {
        lock(&self.held).iter().any(|held| held == text.as_bytes())
    }

    async fn until_open(&self, direction: Direction, beginning: &Beginning) {
        self.rules
            .subscribe()
            .wait_for(|rules| rules.let_through(direction, beginning))
            .await
            .expect("the sender lives in self");
    }

    /// Writes what fits, unless the flow was stopped in the meantime.
    fn pass(
        &self,
        (direction, beginning): (Direction, &Beginning),
        to: &OwnedWriteHalf,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let _passing = lock(&self.passing);
        if self.rules.borrow().let_through(direction, beginning) {
            to.try_write(bytes)
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}

/// Whether a connection is cut before the next reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    No,
    /// The request is being forwarded. What the server says in the meantime is no reply to it, and is lost.
    Coming,
    /// The server has the request.
    Due,
}

/// Forwards between a client and the server until one of them ends the connection.
pub(super) async fn run(client: TcpStream, upstream: SocketAddr, faults: Arc<Faults>) {
    let counted = Counted::new(&faults);
    let beginning = Beginning::default();
    faults.until_open(Direction::Request, &beginning).await;
    // Without a server the client's socket is dropped here, and closed.
    let Some(server) = connect(upstream, faults.patience).await else {
        return;
    };
    for stream in [&client, &server] {
        // A proxy that waits for more bytes would be a fault that the test did not ask for.
        stream.set_nodelay(true).ok();
    }
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let cut = watch::Sender::new(Cut::No);
    let pumps = tokio::try_join!(
        pump(
            &mut from_client,
            &mut to_server,
            (Direction::Request, &beginning),
            &faults,
            &cut
        ),
        pump(
            &mut from_server,
            &mut to_client,
            (Direction::Reply, &beginning),
            &faults,
            &cut
        ),
    );
    // An error ends both directions; the kind of error does not matter.
    pumps.ok();
    drop((from_client, to_client, counted));
    if *cut.borrow() == Cut::Due {
        // The reply may have been that to an earlier request. A server whose connection is reset may carry out nothing
        // more, but one that reads its end has read the request before it.
        to_server.shutdown().await.ok();
        timeout(PATIENCE_OF_END, copy(&mut from_server, &mut sink()))
            .await
            .ok();
    }
}

/// Connects, also if the server begins to listen within this time.
async fn connect(upstream: SocketAddr, patience: Duration) -> Option<TcpStream> {
    const PAUSE: Duration = Duration::from_millis(20);
    let end = Instant::now() + patience;
    loop {
        if let Ok(server) = TcpStream::connect(upstream).await {
            return Some(server);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(PAUSE).await;
    }
}

async fn pump(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    (direction, beginning): (Direction, &Beginning),
    faults: &Faults,
    cut: &watch::Sender<Cut>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut came = Vec::new();
    let mut prepared = Prepared::default();
    loop {
        let read = from.read(&mut buffer).await;
        if direction == Direction::Request {
            beginning.hear(read.as_ref().map_or(&[], |length| &buffer[..*length]));
        }
        // A black hole does not pass on an end or an error either.
        faults.until_open(direction, beginning).await;
        let bytes = &buffer[..read?];
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let sprung = match direction {
            Direction::Request => faults.spring(&prepared.spoken(bytes)),
            Direction::Reply if *cut.borrow() != Cut::No => {
                let mut cut = cut.subscribe();
                cut.wait_for(|cut| *cut == Cut::Due).await.ok();
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Direction::Reply => None,
        };
        // Until the bytes are passed on.
        let (at, _held) = sprung.unzip();
        match at {
            Some(TrapAt::Request) => return Err(io::ErrorKind::ConnectionReset.into()),
            // Before the request is forwarded: its reply may come at once.
            Some(TrapAt::Reply) => drop(cut.send_replace(Cut::Coming)),
            Some(TrapAt::Frozen | TrapAt::Replies) | None => {}
        }
        let rename = lock(&faults.rename).clone();
        let rename = rename.filter(|_| direction == Direction::Request);
        let renamed = rename.map(|rename| {
            came.extend_from_slice(bytes);
            rename.take_from(&mut came)
        });
        let mut bytes = renamed.as_deref().unwrap_or(bytes);
        while !bytes.is_empty() {
            faults.until_open(direction, beginning).await;
            to.writable().await?;
            match faults.pass((direction, beginning), to, bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if at == Some(TrapAt::Reply) {
            cut.send_replace(Cut::Due);
        }
    }
}

/// A request that a trap has met, and that has not been passed on.
struct Held<'a> {
    faults: &'a Faults,
    text: Vec<u8>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = lock(&self.faults.held);
        if let Some(own) = held.iter().position(|text| *text == self.text) {
            held.remove(own);
        }
    }
}

/// Counts a connection for as long as its task lives.
struct Counted(Arc<Faults>);

impl Counted {
    fn new(faults: &Arc<Faults>) -> Self {
        faults.accepted.fetch_add(1, Ordering::AcqRel);
        faults.open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(faults))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_renamed_wherever_its_request_is_cut() {
        let rename = Rename::new("PUBLISH", "PUBLISX");
        let request = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$7\r\nPUBLISH\r\n";
        let script = b"*2\r\n$21\r\nredis.call('PUBLISH')\r\n$1\r\n$\r\n";
        let all = [&request[..], script].concat();
        let renamed = [
            &b"*3\r\n$7\r\nPUBLISX\r\n$1\r\nc\r\n$7\r\nPUBLISX\r\n"[..],
            script,
        ];
        for at in 0..=all.len() {
            let (one, other) = all.split_at(at);
            let mut came = one.to_vec();
            let mut passed = rename.take_from(&mut came);
            came.extend_from_slice(other);
            passed.extend(rename.take_from(&mut came));
            assert_eq!(passed, renamed.concat(), "{at}");
            assert!(came.is_empty());
        }
    }

    #[test]
    fn a_client_is_isolated_by_what_it_says_first() {
        let mut rules = Rules {
            flow: Flow::Open,
            isolated: Some(b"From: 7".to_vec()),
        };
        let (one, other) = (Beginning::default(), Beginning::default());
        one.hear(b"GET /\r\nFr");
        assert!(rules.let_through(Direction::Request, &one));
        one.hear(b"om: 7\r\n");
        other.hear(b"GET /\r\nFrom: 8\r\n");
        other.hear(&[b'x'; BEGINNING]);
        other.hear(b"From: 7");
        for direction in [Direction::Request, Direction::Reply] {
            assert!(!rules.let_through(direction, &one));
            assert!(rules.let_through(direction, &other), "it says so too late");
        }
        rules.isolated = None;
        assert!(rules.let_through(Direction::Reply, &one));
    }

    #[test]
    fn a_trap_waits_for_its_text() {
        let trap = Trap::new("EVALSHA", TrapAt::Reply);
        assert!(trap.matches(b"*2\r\n$7\r\nEVALSHA\r\n"));
        assert!(!trap.matches(b"PING\r\n"));
        assert!(!trap.matches(b""));
        assert!(Trap::new("", TrapAt::Reply).matches(b"PING\r\n"));
    }
}
