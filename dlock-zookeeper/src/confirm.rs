//! Confirms that a claim holds its key.
//!
//! Usually the lease and the fence are written into its child. The fence of an exclusive holder is that of its child, so an
//! earlier write is enough, as long as the session certainly lasts for the lease.

use dlock_runtime::{
    LockMode,
    clock::{Clock, Moment, SystemClock},
    store::{GRANT_TTL, StoreError, StoreErrorKind},
};
use futures_util::future::join_all;
use zookeeper_client::{Error, MultiWriteError};

use crate::{
    data::{Held, Value},
    errors::Failure,
    holder::{Seen, now_in_milliseconds},
    queue::Queue,
    session::Session,
    shared::{Request, catch_up},
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
    request: &Request,
) -> Result<Confirmed, Failure> {
    let (fence, source) = match child.held {
        Some(held) => (held.fence.unwrap_or(child.fence), None),
        None => match epoch(session, child, queue).await? {
            Epoch::Own => (child.fence, None),
            Epoch::Of { fence, path } => (fence, Some(path)),
            Epoch::Changed => return Ok(Confirmed::Changed),
        },
    };
    let held = Held {
        fence: Some(fence),
        since: child
            .held
            .map_or_else(now_in_milliseconds, |held| held.since),
    };
    note_names(child, request);
    let value = Value {
        base: child.base,
        ttl: request.ttl,
        held: Some(held),
        label: child.label.clone(),
        function: child.function.clone(),
        waiter: None,
    };
    let written = SystemClock.now();
    let text = value.to_bytes();
    // Until the answer says otherwise.
    child.is_doubtful = true;
    let answer = write(session, &child.path(), &text, source.as_deref()).await?;
    child.is_doubtful = false;
    match answer {
        Written::Done => {}
        Written::Gone => return Ok(Confirmed::Gone),
        Written::Changed => return Ok(Confirmed::Changed),
    }
    child.held = Some(held);
    child.needs_write = false;
    child.ends = request.begun.plus(request.ttl).monotonic;
    session.proof.wrote(written);
    certain(session, request)?;
    Ok(Confirmed::As(fence))
}

/// Accepts the lease of a claim whose child has just been created, in front of the queue that was read after it. Returns
/// `false` if the lease has to be written.
pub(crate) fn accept(session: &Session, child: &mut Child, request: &Request) -> bool {
    if !may_hold_unwritten(session, request.mode, request.begun.plus(request.ttl)) {
        return false;
    }
    note_names(child, request);
    hold(child);
    child.ends = request.begun.plus(request.ttl).monotonic;
    true
}

/// Accepts the grant to a waiter whose child was in front of the queue a moment ago. Returns its fence; 0 if the waiter has to
/// ask.
pub(crate) fn grant(session: &Session, child: &mut Child, mode: LockMode) -> u64 {
    let end = SystemClock.now().plus(GRANT_TTL);
    if child.needs_write || !may_hold_unwritten(session, mode, end) {
        return 0;
    }
    hold(child);
    child.fence
}

/// Returns `true` if a lease until then needs no write of its own.
fn may_hold_unwritten(session: &Session, mode: LockMode, end: Moment) -> bool {
    mode.is_exclusive() && session.proof.lasts_until(end)
}

fn hold(child: &mut Child) {
    let held = Held {
        fence: None,
        since: now_in_milliseconds(),
    };
    child.held = Some(held);
}

fn note_names(child: &mut Child, request: &Request) {
    if !request.label.is_empty() {
        child.label = Some(request.label.clone());
        child.function = Some(request.function.clone());
    }
}

/// Finds the fence of those that hold together with a child.
async fn epoch(session: &Session, child: &Child, queue: &Queue) -> Result<Epoch, Error> {
    let is_own = |name: &str| name == child.name;
    let own = queue.holders().iter().find(|it| is_own(&it.name));
    if let Some(own) = own.filter(|it| child.is_doubtful && !it.mode.is_exclusive()) {
        // Others may have taken the fence from this child, and the child from which it was taken may be gone.
        let path = child.path();
        catch_up(session, &path).await?;
        let seen = Seen::read(session, &child.directory, own).await?;
        if let Some(fence) = seen.and_then(|it| it.confirmed()) {
            return Ok(Epoch::Of { fence, path });
        }
    }
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
fn certain(session: &Session, request: &Request) -> Result<(), StoreError> {
    let lease_end = request.begun.plus(request.ttl);
    if session.proof.lasts_until(lease_end) {
        return Ok(());
    }
    let message = "the session was without an answer for too long, or has just got another server";
    Err(StoreError::new(StoreErrorKind::TimedOut, message))
}
