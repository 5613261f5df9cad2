//! Confirms that a claim holds its key: the lease and the fence are written into its child.

use dlock_runtime::{
    store::{StoreError, StoreErrorKind},
    testing::{Clock, Moment, SystemClock},
};
use futures_util::future::join_all;
use zookeeper_client::{Error, MultiWriteError};

use crate::{
    claims::Claim,
    data::{Held, Value},
    errors::Failure,
    holder::{self, Seen},
    queue::Queue,
    session::Session,
    slots::Child,
};

/// The outcome of a write to the child of a holder.
pub(crate) enum Confirmed {
    /// The claim holds, with this fence.
    As(u64),
    /// The child is gone.
    Gone,
    /// The other holders have changed, and must be read again.
    Changed,
}

/// The fence of a claim that holds.
enum Epoch {
    /// That of its own child.
    Own,
    /// That of another holder, whose child has this path.
    Of { fence: u64, path: String },
    /// A holder has just gone.
    Changed,
}

/// Writes the lease into the child of a claim that holds its key. `queue` shows that it does, if it was not known before.
///
/// # Errors
///
/// Those of the client, and [`StoreErrorKind::TimedOut`] if the session may not last for the lease.
pub(crate) async fn confirm(
    session: &Session,
    child: &mut Child,
    queue: &Queue,
    claim: &Claim,
) -> Result<Confirmed, Failure> {
    let (held, source) = if let Some(held) = child.held {
        (held, None)
    } else {
        let (fence, source) = match epoch(session, child, queue).await? {
            Epoch::Own => (child.fence, None),
            Epoch::Of { fence, path } => (fence, Some(path)),
            Epoch::Changed => return Ok(Confirmed::Changed),
        };
        let since = u64::try_from(holder::now().as_millis()).unwrap_or(0);
        (Held { fence, since }, source)
    };
    if !claim.label.is_empty() {
        child.label = Some(claim.label.clone());
        child.function = Some(claim.function.clone());
    }
    let value = Value {
        base: child.base,
        ttl: claim.ttl,
        held: Some(held),
        label: child.label.clone(),
        function: child.function.clone(),
        waiter: None,
    };
    let written = SystemClock.now();
    let text = value.to_bytes();
    match write(session, &child.path(), &text, source.as_deref()).await? {
        Written::Done => {}
        Written::Gone => return Ok(Confirmed::Gone),
        Written::Changed => return Ok(Confirmed::Changed),
    }
    child.held = Some(held);
    child.ends = claim.begun.plus(claim.ttl).monotonic;
    certain(session, written, claim)?;
    Ok(Confirmed::As(held.fence))
}

/// Finds the fence of those that hold together with a child.
async fn epoch(session: &Session, child: &Child, queue: &Queue) -> Result<Epoch, Error> {
    let is_own = |name: &str| name == child.name;
    let others: Vec<_> = queue
        .holders()
        .iter()
        .filter(|it| !is_own(&it.name))
        .collect();
    let Some((first, rest)) = others.split_first() else {
        return Ok(Epoch::Own);
    };
    let of = |name: &str, fence: u64| Epoch::Of {
        fence,
        path: format!("{}/{name}", child.directory),
    };
    // Usually the first one has confirmed, and all that have done so have the same fence.
    let Some(seen) = Seen::read(session, &child.directory, first).await? else {
        return Ok(Epoch::Changed);
    };
    if let Some(fence) = seen.confirmed() {
        return Ok(of(&first.name, fence));
    }
    let mut all = vec![(*first, seen)];
    let reads = rest
        .iter()
        .map(|it| Seen::read(session, &child.directory, it));
    for (entry, read) in rest.iter().zip(join_all(reads).await) {
        match read? {
            Some(seen) => all.push((*entry, seen)),
            None => return Ok(Epoch::Changed),
        }
    }
    let confirmed = all
        .iter()
        .find_map(|(it, seen)| Some((it, seen.confirmed()?)));
    if let Some((entry, fence)) = confirmed {
        return Ok(of(&entry.name, fence));
    }
    // One without a fence is about to leave.
    let first = all
        .iter()
        .find_map(|(it, seen)| Some((it, seen.own_fence()?)));
    let own = queue.place(&child.name);
    Ok(match first {
        Some((entry, fence)) if queue.place(&entry.name) < own => of(&entry.name, fence),
        _ => Epoch::Own,
    })
}

enum Written {
    Done,
    Gone,
    Changed,
}

/// Writes to a child, while another one is there if `source` names one.
async fn write(
    session: &Session,
    path: &str,
    text: &[u8],
    source: Option<&str>,
) -> Result<Written, Failure> {
    let Some(source) = source else {
        return match session.client.set_data(path, text, None).await {
            Ok(_) => Ok(Written::Done),
            Err(Error::NoNode | Error::SessionExpired) => Ok(Written::Gone),
            Err(error) => Err(error.into()),
        };
    };
    let mut writer = session.client.new_multi_writer();
    writer.add_check_version(source, -1)?;
    writer.add_set_data(path, text, None)?;
    match writer.commit().await {
        Ok(_) => Ok(Written::Done),
        Err(MultiWriteError::OperationFailed {
            index: 0,
            source: Error::NoNode,
        }) => Ok(Written::Changed),
        Err(error) => match Error::from(error) {
            Error::NoNode | Error::SessionExpired => Ok(Written::Gone),
            error => Err(error.into()),
        },
    }
}

/// Refuses to confirm a lease that the session may not last for.
fn certain(session: &Session, written: Moment, claim: &Claim) -> Result<(), StoreError> {
    let lease_end = claim.begun.plus(claim.ttl);
    if session.proof.lasts(written, lease_end) {
        return Ok(());
    }
    let message = "the session was without an answer for too long, or has just got another server";
    Err(StoreError::new(StoreErrorKind::TimedOut, message))
}
