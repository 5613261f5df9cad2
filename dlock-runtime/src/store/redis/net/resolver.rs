//! Resolves host names on threads of dlock's own, and keeps the last addresses of each name.
//!
//! A lookup of the system blocks its thread, and tokio's lookup uses the blocking pool of the current runtime.
//! That pool may be full of threads that wait for this very connection.
//!
//! # Rules
//!
//! - A lookup never uses the user's runtime or its pool. (`a_full_pool_does_not_delay_a_reconnection`)
//! - A name has one lookup under way at a time, which all callers share, so a resolver that hangs costs one
//!   thread for each name. (`a_lookup_that_hangs_is_shared`)
//! - The last addresses are used while the resolver is slow or says that its failure is temporary.
//!   (`the_last_addresses_count_while_the_resolver_does_not_answer`)
//! - **[S]** An answer replaces them, and so does the answer that the name does not exist: its addresses may belong
//!   to another server by now. (`a_name_that_is_gone_has_no_address`)

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

/// The addresses of more names than this are forgotten. A cluster may name new servers for years.
const MOST_NAMES: usize = 1024;

/// The part of the time limit for which the resolver is awaited although addresses are known.
const SHARE: u32 = 4;

/// The texts by which systems name a temporary failure of the resolver. Another text counts as an answer.
const TEMPORARY: [&str; 2] = ["Temporary failure", "Try again"];

/// The host names of a store. Clones share what they know.
#[derive(Clone)]
pub(crate) struct Resolver(Arc<HostNames>);

struct HostNames {
    /// The lookup of the system, which blocks.
    look_up: fn(&str) -> io::Result<Vec<SocketAddr>>,
    known: Mutex<HashMap<Box<str>, Name>>,
}

#[derive(Default)]
struct Name {
    /// The addresses of the last successful lookup.
    addresses: Vec<SocketAddr>,
    under_way: Option<watch::Receiver<LookupAnswer>>,
}

/// `None` while the lookup is under way.
type LookupAnswer = Option<Arc<io::Result<Vec<SocketAddr>>>>;

impl Default for Resolver {
    fn default() -> Self {
        Self::with(|host| Ok((host, 0).to_socket_addrs()?.collect()))
    }
}

impl Resolver {
    fn with(look_up: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        let known = Mutex::default();
        Self(Arc::new(HostNames { look_up, known }))
    }

    /// Returns the addresses of `host`, within `limit`.
    pub(super) async fn addresses(
        &self,
        host: &str,
        port: u16,
        limit: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let (known, begun) = self.0.begin(host);
        let found = match begun {
            Ok(mut answer) => {
                let patience = if known.is_empty() {
                    limit
                } else {
                    limit / SHARE
                };
                let found = timeout(patience, answer.wait_for(Option::is_some)).await;
                match found {
                    Ok(Ok(found)) => outcome(&found),
                    // The thread has panicked.
                    Ok(Err(_)) => Err(io::Error::other("the lookup of the name was interrupted")),
                    Err(_) => Err(no_answer(limit)),
                }
            }
            Err(no_thread) => Err(no_thread),
        };
        let mut addresses = match found {
            Err(error) if !known.is_empty() && is_temporary(&error) => known,
            found => found?,
        };
        for address in &mut addresses {
            address.set_port(port);
        }
        Ok(addresses)
    }
}

impl HostNames {
    fn known(&self) -> MutexGuard<'_, HashMap<Box<str>, Name>> {
        // Every change is complete before a panic is possible.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the known addresses, and the lookup that is under way or begins now.
    fn begin(
        self: &Arc<Self>,
        host: &str,
    ) -> (Vec<SocketAddr>, io::Result<watch::Receiver<LookupAnswer>>) {
        let mut all = self.known();
        if all.len() >= MOST_NAMES && !all.contains_key(host) {
            all.retain(|_, name| name.under_way.is_some());
        }
        let name = all.entry(host.into()).or_default();
        let addresses = name.addresses.clone();
        if let Some(answer) = &name.under_way {
            return (addresses, Ok(answer.clone()));
        }
        let (tell, answer) = watch::channel(None);
        name.under_way = Some(answer.clone());
        drop(all);
        let lookup = Lookup {
            names: self.clone(),
            host: host.into(),
            tell,
        };
        let thread = thread::Builder::new().name("dlock-resolver".to_owned());
        // Without a thread, the closure is dropped, and the lookup with it.
        let begun = thread.spawn(move || lookup.run());
        (addresses, begun.map(|_| answer))
    }
}

/// A lookup on its own thread. Dropped without an answer, it is not under way any more.
struct Lookup {
    names: Arc<HostNames>,
    host: Box<str>,
    tell: watch::Sender<LookupAnswer>,
}

impl Lookup {
    fn run(self) {
        let found = (self.names.look_up)(&self.host);
        let mut all = self.names.known();
        let name = all.entry(self.host.clone()).or_default();
        // Before the answer: a caller that has it begins another lookup.
        name.under_way = None;
        if let Ok(addresses) = &found {
            name.addresses.clone_from(addresses);
        }
        drop(all);
        self.tell.send_replace(Some(Arc::new(found)));
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let is_answered = self.tell.borrow().is_some();
        if !is_answered && let Some(name) = self.names.known().get_mut(&self.host) {
            name.under_way = None;
        }
    }
}

fn outcome(answer: &LookupAnswer) -> io::Result<Vec<SocketAddr>> {
    match answer.as_deref() {
        Some(Ok(addresses)) => Ok(addresses.clone()),
        Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
        None => unreachable!("the caller has waited for it"),
    }
}

fn no_answer(limit: Duration) -> io::Error {
    let text = format!("the resolver did not answer within {limit:.0?}");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Returns `true` if an error is no answer about the name.
fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{Other, OutOfMemory, TimedOut, WouldBlock};
    if matches!(error.kind(), Other | OutOfMemory | TimedOut | WouldBlock) {
        return true;
    }
    let text = error.to_string();
    TEMPORARY.iter().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Condvar,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{FutureExt, future::join_all};

    use super::*;

    /// Longer than a busy machine pauses a thread.
    const LONG: Duration = Duration::from_secs(60);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 0))
    }

    /// Answers as its name says, at the first lookup and at later ones.
    macro_rules! answers {
        ($first:expr, $later:expr) => {{
            static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
            Resolver::with(|_| match LOOKUPS.fetch_add(1, Ordering::SeqCst) {
                0 => $first,
                _ => $later,
            })
        }};
    }

    fn failed(text: &str) -> io::Result<Vec<SocketAddr>> {
        let text = format!("failed to lookup address information: {text}");
        // The kind of the system's lookup has no name; this one is as little a reason.
        Err(io::Error::new(io::ErrorKind::NotFound, text))
    }

    #[tokio::test]
    async fn the_last_addresses_count_while_the_resolver_does_not_answer() {
        for resolver in [
            answers!(
                Ok(vec![address(1)]),
                failed("Temporary failure in name resolution")
            ),
            answers!(Ok(vec![address(1)]), failed("Try again")),
            answers!(Ok(vec![address(1)]), {
                thread::sleep(LONG);
                Ok(Vec::new())
            }),
        ] {
            for port in [6379, 6380] {
                let limit = if port == 6379 {
                    LONG
                } else {
                    Duration::from_millis(400)
                };
                let found = resolver.addresses("redis", port, limit).await.unwrap();
                assert_eq!(found, [SocketAddr::from(([10, 0, 0, 1], port))]);
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_is_gone_has_no_address() {
        const GONE: &str = "Name or service not known";

        let resolver = answers!(Ok(vec![address(1)]), failed(GONE));
        resolver.addresses("redis", 6379, LONG).await.unwrap();
        let error = resolver.addresses("redis", 6379, LONG).await.unwrap_err();
        assert!(error.to_string().contains(GONE), "{error}");
        // The last answer counts, also another address.
        let resolver = answers!(Ok(vec![address(1)]), Ok(vec![address(2)]));
        resolver.addresses("redis", 0, LONG).await.unwrap();
        let found = resolver.addresses("redis", 0, LONG).await.unwrap();
        assert_eq!(found, [address(2)]);
    }

    #[tokio::test]
    async fn a_lookup_that_hangs_is_shared() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

        let resolver = Resolver::with(|_| {
            LOOKUPS.fetch_add(1, Ordering::SeqCst);
            let open = GATE.0.lock().unwrap();
            drop(GATE.1.wait_while(open, |open| !*open).unwrap());
            Ok(vec![address(1)])
        });
        let brief = Duration::from_millis(20);
        for _ in 0..5 {
            let asked = (0..20).map(|_| resolver.addresses("redis", 0, brief));
            let answers = join_all(asked).await;
            assert!(answers.iter().all(Result::is_err));
        }
        let error = resolver.addresses("redis", 0, brief).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        let mut waits = Box::pin(resolver.addresses("redis", 0, LONG));
        assert!(waits.as_mut().now_or_never().is_none());
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        assert_eq!(waits.await.unwrap(), [address(1)]);
        assert_eq!(LOOKUPS.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_lookup_that_panics_is_an_error_and_the_next_one_counts() {
        let resolver = answers!(panic!("in the lookup"), Ok(vec![address(1)]));
        let error = resolver.addresses("redis", 0, LONG).await.unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        let found = resolver.addresses("redis", 0, LONG).await.unwrap();
        assert_eq!(found, [address(1)]);
    }

    #[tokio::test]
    async fn an_address_needs_no_lookup() {
        let resolver = Resolver::with(|host| panic!("{host} is an address"));
        let found = resolver.addresses("::1", 7, LONG).await.unwrap();
        assert_eq!(found, [SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 7))]);
    }

    #[tokio::test]
    async fn names_do_not_fill_the_memory() {
        let resolver = Resolver::with(|_| Ok(vec![address(1)]));
        for number in 0..MOST_NAMES + 10 {
            let host = format!("redis-{number}");
            resolver.addresses(&host, 0, LONG).await.unwrap();
        }
        assert!(resolver.0.known().len() <= MOST_NAMES);
    }
}
