//! The three requests of a store, as commands of memcached.

use std::{borrow::Cow, fmt::Display, io::ErrorKind, sync::mpsc, thread, time::Duration};

use dlock::{
    Holder, LockKey, StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, LockMode, LockStore, OwnerId, ReleaseRequest, Released,
        RenewBatch, Renewal, StoreOptions, StoreProperties, fence_by_the_clock, renew_each,
    },
};
use memcache::{
    MemcacheError, ServerError,
    exp::{Arithmetic, Delete, Get, GetResult, Meta, MetaClient, Set},
};
use sha2::{Digest, Sha256};
use tokio::{sync::oneshot, time::timeout};

/// The longest time for which memcached keeps an entry, in seconds: 30 days.
const LONGEST: u32 = 30 * 24 * 3600;

type Request = Box<dyn FnOnce(&MetaClient) + Send>;

/// Locks in a memcached server, version 1.6.10 or later.
#[derive(Debug)]
pub struct MemcachedStore {
    pub(crate) address: String,
    limit: Duration,
    namespace: String,
    /// A thread carries them out, one after the other, also while those of the callers are blocked. It ends with the store.
    requests: mpsc::Sender<Request>,
}

/// The lease that a request is about.
struct Lease {
    /// The name of its entry.
    name: String,
    owner: String,
    ttl: Duration,
    label: String,
}

/// The entry of a held key.
struct Entry {
    owner: String,
    /// 0 until it is counted.
    fence: u64,
    label: String,
    version: u64,
}

impl Entry {
    fn read(result: &GetResult) -> Result<Option<Self>, MemcacheError> {
        let Some(value) = &result.value else {
            return Ok(None);
        };
        let value = String::from_utf8_lossy(value);
        let words: Vec<_> = value.splitn(3, ' ').map(str::to_owned).collect();
        let (Ok([owner, fence, label]), Some(version @ 1..)) =
            (<[_; 3]>::try_from(words), result.item.cas)
        else {
            return Err(unexpected("an entry that is no lock, or has no version"));
        };
        let fence = fence
            .parse()
            .map_err(|_| unexpected("an entry that is no lock"))?;
        Ok(Some(Self {
            owner,
            fence,
            label,
            version,
        }))
    }
}

fn unexpected(what: &'static str) -> MemcacheError {
    ServerError::BadResponse(Cow::Borrowed(what)).into()
}

impl Lease {
    fn get(&self) -> Get {
        Get::new(&*self.name).meta(Meta::NONE.cas())
    }

    fn set(&self, fence: u64, label: &str) -> Set {
        // The server counts in ticks of a second, of which the first one may be almost over. One more is for a server that
        // was paused: it may store before it has looked at its clock. A longer pause at that moment is not covered.
        let seconds = self.ttl.as_secs() + u64::from(self.ttl.subsec_nanos() > 0) + 2;
        let seconds = u32::try_from(seconds).unwrap_or(LONGEST);
        Set::new(&*self.name, format!("{} {fence} {label}", self.owner)).ttl(seconds)
    }

    fn acquire(&self, client: &MetaClient) -> Result<AcquireOutcome, MemcacheError> {
        loop {
            let count = Arithmetic::new("dlock-fence").ttl(LONGEST);
            let results = client.run_batch([
                self.set(0, &self.label).add().into(),
                self.get().into(),
                count.initial(fence_by_the_clock(), LONGEST).into(),
            ])?;
            let read = results[1].as_get().map(Entry::read).transpose()?.flatten();
            let entry = match read {
                Some(entry) if entry.owner == self.owner => entry,
                Some(entry) => {
                    let holder = Holder::new(entry.fence).fence(entry.fence);
                    return Ok(AcquireOutcome::busy(holder.label(entry.label)));
                }
                // The lease of another owner ended between the two commands.
                None => continue,
            };
            let counted = results[2].as_arithmetic().and_then(|it| it.value);
            let fence = match entry.fence {
                0 => counted.ok_or_else(|| unexpected("no fence"))?,
                // The request was repeated, and the lease keeps its fence.
                fence => fence,
            };
            // As the entry is the one that was read, the owner held the key while the fence was counted.
            let keep = self.set(fence, &self.label).compare_cas(entry.version);
            if client.run(keep)?.stored() {
                return Ok(AcquireOutcome::granted(fence));
            }
        }
    }

    fn renew(&self, client: &MetaClient) -> Result<Renewal, MemcacheError> {
        while let Some(entry) = self.held(client)? {
            let label = Some(&self.label).filter(|it| !it.is_empty());
            let keep = self.set(entry.fence, label.unwrap_or(&entry.label));
            if client.run(keep.compare_cas(entry.version))?.stored() {
                return Ok(Renewal::Renewed);
            }
        }
        Ok(Renewal::NotOwner)
    }

    fn release(&self, client: &MetaClient) -> Result<Released, MemcacheError> {
        while let Some(entry) = self.held(client)? {
            let delete = Delete::new(&*self.name).compare_cas(entry.version);
            if client.run(delete)?.stored() {
                return Ok(Released::WasHeld);
            }
        }
        Ok(Released::WasGone)
    }

    /// Returns the entry, if it is the owner's.
    fn held(&self, client: &MetaClient) -> Result<Option<Entry>, MemcacheError> {
        let entry = Entry::read(&client.run(self.get())?)?;
        Ok(entry.filter(|it| it.owner == self.owner))
    }
}

fn kind(error: &MemcacheError) -> StoreErrorKind {
    match error {
        MemcacheError::IOError(error) => match error.kind() {
            ErrorKind::ConnectionRefused => StoreErrorKind::Unreachable,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => StoreErrorKind::TimedOut,
            _ => StoreErrorKind::Disconnected,
        },
        MemcacheError::ServerError(ServerError::BadResponse(_)) => StoreErrorKind::BadAnswer,
        _ => StoreErrorKind::Refused,
    }
}

/// Carries requests out. All commands of one have one connection, and so one life of the server: after a restart,
/// another entry may have the same version.
fn serve(address: &str, limit: Duration, requests: mpsc::Receiver<Request>) {
    let limit = Some(limit);
    let mut client: Option<MetaClient> = None;
    for request in requests {
        client = client.or_else(|| MetaClient::connect(address).ok());
        if let Some(made) = client.take() {
            let made = made.with_connect_timeout(limit).with_io_timeout(limit);
            // A connection that the server has closed fails here, before a request is sent.
            drop(made.noop());
            request(&made);
            client = Some(made);
        }
    }
}

impl MemcachedStore {
    pub(crate) fn new(address: String, options: &StoreOptions) -> Self {
        let (requests, received) = mpsc::channel();
        let (limit, server) = (options.response_timeout, address.clone());
        thread::spawn(move || serve(&server, limit, received));
        Self {
            address,
            limit,
            namespace: options.namespace.clone(),
            requests,
        }
    }

    /// Carries a request out after those before it, and also if this future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        request: impl FnOnce(&MetaClient) -> Result<T, MemcacheError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, replied) = oneshot::channel();
        // A caller that has gone gets no reply.
        let request = |client: &MetaClient| drop(reply.send(request(client)));
        drop(self.requests.send(Box::new(request)));
        match timeout(self.limit, replied).await {
            Ok(Ok(answer)) => answer.map_err(|error| self.error(kind(&error), error)),
            Ok(Err(_)) => Err(self.error(StoreErrorKind::Unreachable, "no such host")),
            Err(_) => Err(StoreError::timed_out(self.limit)),
        }
    }

    fn error(&self, kind: StoreErrorKind, error: impl Display) -> StoreError {
        StoreError::new(kind, format!("{}: {error}", self.address))
    }

    /// A name has at most 250 bytes and no spaces, so it is a hash.
    fn lease(&self, key: &LockKey, owner: OwnerId, ttl: Duration, label: &str) -> Lease {
        let hash = Sha256::digest(format!("{}:{key}", self.namespace));
        let digits: Vec<_> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, owner) = (format!("dlock:{}", digits.concat()), owner.to_string());
        Lease {
            name,
            owner,
            ttl,
            label: label.to_owned(),
        }
    }
}

impl LockStore for MemcachedStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        if request.mode != LockMode::Exclusive {
            let message = "memcached has exclusive locks only";
            return Err(StoreError::new(StoreErrorKind::Unsupported, message).without_effect());
        }
        let lease = self.lease(request.key, request.owner, request.ttl, request.label);
        self.run(move |client| lease.acquire(client)).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |it| {
            let lease = self.lease(it.key, it.owner, it.ttl, it.label);
            self.run(move |client| lease.renew(client))
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let lease = self.lease(request.key, request.owner, Duration::ZERO, "");
        self.run(move |client| lease.release(client)).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        // Exclusive locks, no queue, no messages, and the usual drift between two clocks.
        StoreProperties::new()
    }
}
