//! A network that fails on demand: a TCP proxy between a client and a server.

mod link;
mod prepared;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::port;
use link::{Faults, Flow, Rename, Trap, TrapAt};

/// A TCP proxy in front of a server on 127.0.0.1.
///
/// It never swallows bytes and goes on, because TCP cannot do that: what is not forwarded is
/// held back, or the connection ends.
///
/// The proxy runs on a thread of its own, so paused time or a blocked runtime in the test does
/// not stop it. Each method has taken effect when it returns.
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
    orders: mpsc::UnboundedSender<(Order, std::sync::mpsc::Sender<()>)>,
    thread: Option<JoinHandle<()>>,
}

/// An order that the thread of the proxy must carry out itself, because it owns the sockets.
enum Order {
    Cut,
    Refuse,
    Accept,
    Redirect(u16),
    Stop,
}

impl Proxy {
    /// Starts a proxy that forwards to a port on 127.0.0.1. The server may come later.
    #[must_use]
    pub fn start(upstream_port: u16) -> Self {
        Self::start_patient(upstream_port, Duration::ZERO)
    }

    /// The same for servers that connect to each other while they start: a connection waits for so long for a server that
    /// does not listen yet. An accepted connection that is closed at once is another answer than a refused one.
    #[must_use]
    pub fn start_patient(upstream_port: u16, patience: Duration) -> Self {
        let listener = port::listen();
        let address = listener.local_addr().expect("a listener has an address");
        listener
            .set_nonblocking(true)
            .expect("a socket can be made non-blocking");
        let faults = Arc::new(Faults::new(patience));
        let (orders, inbox) = mpsc::unbounded_channel();
        let thread = thread::spawn({
            let faults = Arc::clone(&faults);
            move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime can be built")
                    .block_on(async {
                        let listener = TcpListener::from_std(listener).expect("it is non-blocking");
                        serve(listener, address, upstream_port, faults, inbox).await;
                    });
            }
        });
        Self {
            port: address.port(),
            faults,
            orders,
            thread: Some(thread),
        }
    }

    /// The URL of the proxy. It has no password: add one if the server asks for it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port of the proxy on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections. New ones are still accepted.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Refuses new connections, as a host without a server does. Open ones stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        self.order(Order::Accept);
    }

    /// Forwards new connections to another port on 127.0.0.1, as a virtual IP address that moves does. Open ones stay where
    /// they are.
    pub fn redirect(&self, upstream_port: u16) {
        self.order(Order::Redirect(upstream_port));
    }

    /// Stops forwarding in both directions and keeps the connections open: a black hole.
    ///
    /// New connections are accepted and get no answer; an end of a connection is not passed
    /// on either.
    pub fn freeze(&self) {
        self.faults.set_flow(Flow::Frozen);
    }

    /// Forwards requests, but holds the replies back: late answers to what was done in time.
    pub fn hold_replies(&self) {
        self.faults.set_flow(Flow::RepliesHeld);
    }

    /// Forwards again, beginning with everything that was held back.
    pub fn thaw(&self) {
        self.faults.set_flow(Flow::Open);
    }

    /// Forwards the next request and closes its connection in place of the reply.
    ///
    /// The server has done what was asked, the client cannot know. One connection is closed,
    /// once.
    pub fn cut_before_next_reply(&self) {
        self.cut_before_reply_to("");
    }

    /// Like [`cut_before_next_reply`](Self::cut_before_next_reply), for the next request that
    /// contains `text`, such as `"EVALSHA"` or a key. Case counts.
    pub fn cut_before_reply_to(&self, text: &str) {
        self.faults.set_trap(Trap::new(text, TrapAt::Reply));
    }

    /// Closes the connection of the next request that contains `text`, without forwarding it.
    ///
    /// The server has done nothing; to the client this looks like
    /// [`cut_before_reply_to`](Self::cut_before_reply_to).
    pub fn cut_before_request(&self, text: &str) {
        self.faults.set_trap(Trap::new(text, TrapAt::Request));
    }

    /// Forwards the next request that contains `text`, and from then on [holds the replies](Self::hold_replies).
    ///
    /// It differs from `hold_replies` in that everything before is answered.
    pub fn hold_replies_from(&self, text: &str) {
        self.faults.set_trap(Trap::new(text, TrapAt::Replies));
    }

    /// [Freezes](Self::freeze) when a request that contains `text` comes, before it is forwarded: it arrives late, or never.
    pub fn freeze_before_request(&self, text: &str) {
        self.faults.set_trap(Trap::new(text, TrapAt::Frozen));
    }

    /// Freezes the connections of one client: those that begin with a text that contains `text`. With `None`, none.
    pub fn isolate(&self, text: Option<&str>) {
        self.faults.isolate(text);
    }

    /// `true` if a request that one of the `cut_before_…` methods, `hold_replies_from` or `freeze_before_request` waits for is
    /// still to come.
    #[must_use]
    pub fn is_trap_set(&self) -> bool {
        self.faults.is_trap_set()
    }

    /// `true` from the moment at which [`freeze_before_request`](Self::freeze_before_request) has held a request with this text back, until
    /// the request has been passed on.
    #[must_use]
    pub fn holds_request(&self, text: &str) -> bool {
        self.faults.holds(text)
    }

    /// Has the server understand `from` where clients say it: the command is passed on as `to`, which is as
    /// long. What a script calls stays as it is.
    ///
    /// With a server that knows the command only as `to`, by `rename-command`, clients can use it and
    /// scripts cannot. It counts for requests from now on.
    pub fn rename(&self, from: &str, to: &str) {
        self.faults.set_rename(Rename::new(from, to));
    }

    /// The number of connections that are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.faults.open_connections()
    }

    /// The number of connections accepted since the start.
    #[must_use]
    pub fn accepted_connections(&self) -> usize {
        self.faults.accepted_connections()
    }

    fn order(&self, order: Order) {
        let (done, wait) = std::sync::mpsc::channel();
        self.orders
            .send((order, done))
            .expect("the proxy runs until it is dropped");
        wait.recv().expect("the proxy carries out every order");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Both fail only if the thread has panicked, which has failed the test by now.
        let (done, _) = std::sync::mpsc::channel();
        self.orders.send((Order::Stop, done)).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    upstream_port: u16,
    faults: Arc<Faults>,
    mut inbox: mpsc::UnboundedReceiver<(Order, std::sync::mpsc::Sender<()>)>,
) {
    let mut upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream_port));
    let mut listener = Some(listener);
    // In place of the listener, so that no other process gets its port.
    let mut held = None;
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            // Orders first: they come from a thread that waits.
            biased;
            order = inbox.recv() => {
                let Some((order, done)) = order else { return };
                match order {
                    // Waits until the tasks are gone, and their sockets with them.
                    Order::Cut => links.shutdown().await,
                    // A closed listener, not one that hangs up: clients see the difference.
                    Order::Refuse => {
                        listener = None;
                        if held.is_none() {
                            held = Some(refusing(address).await);
                        }
                    }
                    // The socket that holds the port listens itself: another one could not have it yet, while a
                    // process that is being started has a copy of this one.
                    Order::Accept => {
                        if let Some(held) = held.take() {
                            listener = Some(port::listen_again(held));
                        }
                    }
                    Order::Redirect(port) => upstream.set_port(port),
                    Order::Stop => return,
                }
                // The receiver is gone when the proxy is dropped.
                done.send(()).ok();
            }
            Some(_) = links.join_next() => {}
            client = next_client(listener.as_ref()) => {
                links.spawn(link::run(client, upstream, Arc::clone(&faults)));
            }
        }
    }
}

/// Keeps the port of `address`, once nobody listens there: a process that is being started has a copy of every socket
/// until it becomes another program.
async fn refusing(address: SocketAddr) -> TcpSocket {
    const LONGEST: Duration = Duration::from_secs(20);
    let held = async {
        loop {
            if let Some(held) = port::hold(address.port()) {
                return held;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONGEST, held)
        .await
        .expect("nobody else takes the port of a proxy")
}

async fn next_client(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        // A client that has given up already is no concern of the proxy.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}
