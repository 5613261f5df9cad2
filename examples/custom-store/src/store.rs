//! The three requests of a store, as commands of memcached.

use std::time::Duration;

use dlock::{
    ConnectError, Holder, LockKey, StoreError, StoreErrorKind,
    store::{
        AcquireOutcome, AcquireRequest, LockMode, LockStore, ReleaseRequest, Released, RenewBatch,
        RenewRequest, Renewal, StoreOptions, StoreProperties, fence_by_the_clock, renew_each,
    },
};
use memcache::exp::{MetaCommand, MetaOp, MetaResponse, ReturnCode, build_noop};
use sha2::{Digest, Sha256};

use crate::client::Client;

/// Locks in a memcached server, version 1.6 or later.
pub struct MemcachedStore {
    requests: Client,
    /// Renewals come from a thread of dlock's own, and wait for no other request.
    renewals: Client,
    namespace: String,
}

/// The entry of a held key.
struct Entry {
    owner: String,
    /// 0 until it is counted.
    fence: u64,
    label: String,
    /// The flag of commands that do nothing unless this is still the entry: `C` and its version.
    is_same: String,
}

impl Entry {
    /// Reads the reply to [`get`].
    fn in_reply(reply: &MetaResponse) -> Result<Option<Self>, StoreError> {
        let Some(value) = &reply.value else {
            return Ok(None);
        };
        let value = String::from_utf8_lossy(value);
        let mut words = value.splitn(3, ' ');
        let (owner, fence, label) = (words.next(), words.next().map(str::parse), words.next());
        let (Some(owner), Some(Ok(fence)), Some(label)) = (owner, fence, label) else {
            let message = "another program has written the entry";
            return Err(StoreError::new(StoreErrorKind::WrongType, message));
        };
        Ok(Some(Self {
            owner: owner.to_owned(),
            fence,
            label: label.to_owned(),
            is_same: String::from_utf8_lossy(&reply.flags.concat()).to_uppercase(),
        }))
    }
}

fn command(what: MetaOp, name: &str, flags: &[&str]) -> MetaCommand {
    let mut command = MetaCommand::new(what, name);
    command.flags = flags.iter().map(|it| it.as_bytes().to_vec()).collect();
    command
}

fn get(name: &str) -> MetaCommand {
    command(MetaOp::Get, name, &["v", "c"])
}

/// Stores an entry if `condition` is true.
fn set(name: &str, condition: &str, ttl: Duration, entry: (&str, u64, &str)) -> MetaCommand {
    // The server counts in ticks of a second, of which the first one may be almost over. One more is for a server that goes
    // on after a pause: a thread that stores can be ahead of the one that counts. A longer pause at that moment is not covered.
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0) + 2;
    let mut command = command(MetaOp::Set, name, &[condition, &format!("T{seconds}")]);
    command.value = Some(format!("{} {} {}", entry.0, entry.1, entry.2).into_bytes());
    command
}

impl MemcachedStore {
    pub(crate) fn new(address: &str, options: &StoreOptions) -> Self {
        let client = || Client {
            address: address.into(),
            limit: options.response_timeout,
            connection: <_>::default(),
        };
        Self {
            requests: client(),
            renewals: client(),
            namespace: options.namespace.clone(),
        }
    }

    pub(crate) async fn ready(&self) -> Result<(), ConnectError> {
        let url = format!("memcached://{}", self.requests.address);
        let answered = self.requests.ask(vec![build_noop()]).await;
        answered
            .map(drop)
            .map_err(|reason| ConnectError::Unavailable { url, reason })
    }

    /// Returns the name of a key's entry. A name has at most 250 bytes and no spaces, so it is a hash.
    fn name(&self, key: &LockKey) -> String {
        let hash = Sha256::digest(format!("{}:{key}", self.namespace));
        let digits = hash.iter().map(|byte| format!("{byte:02x}"));
        format!("dlock:{}", digits.collect::<String>())
    }

    async fn renew_alone(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let (name, owner) = (self.name(request.key), request.owner.to_string());
        while let Some(entry) = held(&self.renewals, &name, &owner).await? {
            let label = Some(request.label).filter(|it| !it.is_empty());
            let lease = (&*owner, entry.fence, label.unwrap_or(&entry.label));
            let keep = set(&name, &entry.is_same, request.ttl, lease);
            if is_done(&self.renewals, keep).await? {
                return Ok(Renewal::Renewed);
            }
        }
        Ok(Renewal::NotOwner)
    }
}

/// Returns the entry of a key that this owner holds.
async fn held(client: &Client, name: &str, owner: &str) -> Result<Option<Entry>, StoreError> {
    let replies = client.ask(vec![get(name)]).await?;
    let entry = Entry::in_reply(&replies[0])?;
    Ok(entry.filter(|it| it.owner == owner))
}

/// Returns whether the condition of a command was true.
async fn is_done(client: &Client, command: MetaCommand) -> Result<bool, StoreError> {
    Ok(client.ask(vec![command]).await?[0].rc == ReturnCode::Hd)
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
            let first = format!("J{}", fence_by_the_clock());
            let count = command(MetaOp::Arithmetic, "dlock-fence", &["N0", &first, "v"]);
            let replies = self.requests.ask(vec![add, get(&name), count]).await?;
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
                0 => number_in(&replies[2])?,
                // The request was repeated, and the lease keeps its fence.
                fence => fence,
            };
            // As the entry is the one that was read, the owner held the key while the fence was counted.
            let lease = (&*owner, fence, request.label);
            let keep = set(&name, &entry.is_same, request.ttl, lease);
            if is_done(&self.requests, keep).await? {
                return Ok(AcquireOutcome::granted(fence));
            }
        }
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        renew_each(batch, |request| self.renew_alone(request)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let (name, owner) = (self.name(request.key), request.owner.to_string());
        while let Some(entry) = held(&self.requests, &name, &owner).await? {
            let delete = command(MetaOp::Delete, &name, &[&entry.is_same]);
            if is_done(&self.requests, delete).await? {
                return Ok(Released::WasHeld);
            }
        }
        Ok(Released::WasGone)
    }

    fn properties(&self) -> StoreProperties<'_> {
        // Exclusive locks, no queue, no messages, and the usual drift between two clocks.
        StoreProperties::new()
    }
}

/// Returns the value of the counter.
fn number_in(reply: &MetaResponse) -> Result<u64, StoreError> {
    let value = reply.value.as_deref().map(String::from_utf8_lossy);
    let number = value.and_then(|it| it.trim().parse().ok());
    number.ok_or_else(|| StoreError::new(StoreErrorKind::BadAnswer, "the fence is no number"))
}
