//! The three requests of a store, as commands of memcached.

use std::{fmt::Write, time::Duration};

use dlock::{
    ConnectError, Holder, LockKey, StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, LockMode, LockStore, ReleaseRequest, Released, RenewBatch,
        RenewRequest, Renewal, StoreOptions, StoreProperties, fence_by_the_clock, renew_each,
    },
};
use sha2::{Digest, Sha256};

use crate::connection::{Connection, Reply};

/// Locks in a memcached server, version 1.6 or later.
#[derive(Debug)]
pub struct MemcachedStore {
    requests: Connection,
    /// Renewals come from a thread of dlock's own, and wait for no other request.
    renewals: Connection,
    namespace: String,
}

/// The entry of a held key.
struct Entry {
    owner: String,
    /// 0 until it is counted.
    fence: u64,
    label: String,
    /// The version of the entry.
    cas: String,
}

impl Entry {
    /// Reads the reply to [`get`].
    fn in_reply(reply: &Reply) -> Result<Option<Self>, StoreError> {
        if reply.status() == "EN" {
            return Ok(None);
        }
        let words: Vec<_> = reply.value.split(' ').collect();
        let [owner, fence, label] = words[..] else {
            return Err(reply.unexpected(StoreErrorKind::WrongType));
        };
        let fence = fence
            .parse()
            .map_err(|_| reply.unexpected(StoreErrorKind::WrongType))?;
        Ok(Some(Self {
            owner: owner.to_owned(),
            fence,
            label: label.to_owned(),
            cas: reply.flag('c'),
        }))
    }
}

fn get(name: &str) -> String {
    format!("mg {name} v c\r\n")
}

/// Stores an entry if `condition` is true.
fn set(name: &str, condition: &str, ttl: Duration, entry: (&str, u64, &str)) -> String {
    let value = format!("{} {} {}", entry.0, entry.1, entry.2);
    // The server counts in ticks of a second, of which the first one may be almost over. One more is for a server that goes
    // on after a pause: a thread that stores can be ahead of the one that counts. A longer pause at that moment is not covered.
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0) + 2;
    format!(
        "ms {name} {} {condition} T{seconds}\r\n{value}\r\n",
        value.len()
    )
}

impl MemcachedStore {
    pub(crate) fn new(address: &str, options: &StoreOptions) -> Self {
        let connection = || Connection::new(address, options.response_timeout);
        Self {
            requests: connection(),
            renewals: connection(),
            namespace: options.namespace.clone(),
        }
    }

    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let answered = self.requests.ask(&["mn\r\n".to_owned()]).await;
        let unavailable = |reason| ConnectError::Unavailable {
            url: format!("memcached://{}", self.requests.address()),
            reason,
        };
        answered.map(drop).map_err(unavailable)
    }

    /// Returns the name of a key's entry. A name has at most 250 bytes and no spaces, so it is a hash.
    fn name(&self, key: &LockKey) -> String {
        let mut name = "dlock:".to_owned();
        for byte in Sha256::digest(format!("{}:{key}", self.namespace)) {
            write!(name, "{byte:02x}").expect("a string can be written to");
        }
        name
    }

    async fn renew_alone(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let (name, owner) = (self.name(request.key), request.owner.to_string());
        loop {
            let read = self.renewals.ask(&[get(&name)]).await?;
            let Some(entry) = Entry::in_reply(&read[0])?.filter(|it| it.owner == owner) else {
                return Ok(Renewal::NotOwner);
            };
            let label = if request.label.is_empty() {
                &entry.label
            } else {
                request.label
            };
            let (is_unchanged, lease) = (format!("C{}", entry.cas), (&*owner, entry.fence, label));
            let keep = set(&name, &is_unchanged, request.ttl, lease);
            if self.renewals.ask(&[keep]).await?[0].status() == "HD" {
                return Ok(Renewal::Renewed);
            }
        }
    }
}

impl LockStore for MemcachedStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        if request.mode != LockMode::Exclusive {
            let message = "memcached has exclusive locks only";
            return Err(StoreError::new(StoreErrorKind::Unsupported, message).without_effect());
        }
        let (name, owner) = (self.name(request.key), request.owner.to_string());
        loop {
            let add = set(&name, "ME", request.ttl, (&owner, 0, request.label));
            let count = format!("ma dlock-fence N0 J{} v\r\n", fence_by_the_clock());
            let replies = self.requests.ask(&[add, get(&name), count]).await?;
            let entry = match Entry::in_reply(&replies[1])? {
                Some(entry) if entry.owner == owner => entry,
                Some(entry) => {
                    let holder = Holder::new(entry.fence).fence(entry.fence);
                    return Ok(AcquireOutcome::busy(holder.label(entry.label)));
                }
                // The lease of another owner ended between the two commands.
                None => continue,
            };
            let fence = match entry.fence {
                0 => replies[2].number()?,
                // The request was repeated, and the lease keeps its fence.
                fence => fence,
            };
            // As the entry is the one that was read, the owner held the key while the fence was counted.
            let is_unchanged = format!("C{}", entry.cas);
            let keep = set(
                &name,
                &is_unchanged,
                request.ttl,
                (&owner, fence, request.label),
            );
            if self.requests.ask(&[keep]).await?[0].status() == "HD" {
                return Ok(AcquireOutcome::granted(fence));
            }
        }
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| self.renew_alone(request)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let (name, owner) = (self.name(request.key), request.owner.to_string());
        loop {
            let read = self.requests.ask(&[get(&name)]).await?;
            let Some(entry) = Entry::in_reply(&read[0])?.filter(|it| it.owner == owner) else {
                return Ok(Released::WasGone);
            };
            let delete = format!("md {name} C{}\r\n", entry.cas);
            if self.requests.ask(&[delete]).await?[0].status() == "HD" {
                return Ok(Released::WasHeld);
            }
        }
    }

    fn properties(&self) -> StoreProperties<'_> {
        // Exclusive locks, no queue, no messages, and the usual drift between two clocks.
        StoreProperties::new()
    }
}
