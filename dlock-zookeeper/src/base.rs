//! The requests for the base of fences, see `fence.rs`.

use dlock_runtime::store::{StoreError, StoreErrorKind, fence_by_the_clock};
use zookeeper_client::{CreateMode, Error, MultiWriteError};

use crate::{
    errors::Failure,
    fence::{Base, following},
    names,
    repeats::Repeats,
    session::Session,
};

/// Returns the base that the session knows, or reads it, and raises it if it lags behind the clock.
pub(crate) async fn current(session: &Session, root: &str) -> Result<Base, Failure> {
    if let Some(base) = session.base.get() {
        return Ok(base);
    }
    let mut repeats = Repeats::default();
    loop {
        let forgotten = session.base.forgotten();
        let read = read(session, root, &mut repeats).await?;
        let base = match read {
            Some(base) if !base.is_late(fence_by_the_clock()) => base,
            old => {
                let Some(base) = replace(session, root, old).await? else {
                    repeats.again().await?;
                    continue;
                };
                base
            }
        };
        session.base.note(base, forgotten);
        return Ok(base);
    }
}

/// Replaces a base of which the fences are used up.
pub(crate) async fn replace_used_up(
    session: &Session,
    root: &str,
    old: Base,
) -> Result<(), Failure> {
    if session.base.get() == Some(old) {
        session.base.forget();
        let forgotten = session.base.forgotten();
        if let Some(new) = replace(session, root, Some(old)).await? {
            session.base.note(new, forgotten);
        }
    }
    Ok(())
}

/// Reads the base; `None` if there was never one.
async fn read(
    session: &Session,
    root: &str,
    repeats: &mut Repeats,
) -> Result<Option<Base>, Failure> {
    let directory = names::bases(root);
    loop {
        // The server may not have heard of the last base yet.
        session.client.sync(root).await?;
        let found = match session.client.list_children(&directory).await {
            Ok(found) => found,
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if found.is_empty() {
            let message = format!(
                "`{directory}` is empty: the base of the fencing tokens was deleted; delete `{directory}` as well, and the \
                 next acquire makes a new base from the clock"
            );
            return Err(StoreError::new(StoreErrorKind::BadAnswer, message)
                .with_advice()
                .into());
        }
        let Some(values) = values(&found) else {
            let message = format!(
                "`{directory}` has nodes that are not from dlock: {found:?}; delete them, and leave the numbers"
            );
            return Err(StoreError::new(StoreErrorKind::BadAnswer, message)
                .with_advice()
                .into());
        };
        if let Some(value) = merged(session, root, values).await? {
            // It is gone if another process has just replaced it.
            let stat = session.client.check_stat(&names::base(root, value)).await?;
            if let Some(stat) = stat {
                let since = stat.czxid;
                return Ok(Some(Base { value, since }));
            }
        }
        repeats.again().await?;
    }
}

/// Reads the names in the directory of the base, the greatest last; `None` if they are not those of dlock.
pub(crate) fn values(names: &[String]) -> Option<Vec<u64>> {
    let value = |name: &String| {
        let value = name.parse().ok()?;
        // `007` is the name of another node.
        (u64::to_string(&value) == *name).then_some(value)
    };
    let mut values: Vec<u64> = names.iter().map(value).collect::<Option<_>>()?;
    values.sort_unstable();
    Some(values)
}

/// Replaces several bases by one that is greater than all of them; `None` if they must be read again. A fault of ZooKeeper can bring
/// back one that was deleted, keep one that was never confirmed, or lose one that was.
async fn merged(
    session: &Session,
    root: &str,
    mut values: Vec<u64>,
) -> Result<Option<u64>, Failure> {
    let greatest = values.last().copied();
    while values.len() > 1 || values.last().copied() < greatest {
        let new = following(greatest, fence_by_the_clock());
        let options = CreateMode::Persistent.with_acls(session.acls());
        let mut writer = session.client.new_multi_writer();
        for value in &values {
            writer.add_delete(&names::base(root, *value), None)?;
        }
        writer.add_create(&names::base(root, new), b"", &options)?;
        match writer.commit().await {
            Ok(_) => return Ok(Some(new)),
            Err(MultiWriteError::OperationFailed {
                index,
                source: Error::NoNode,
            }) if index < values.len() => {
                // The leader does not have it, so no child is created with it. It may have had children before.
                values.remove(index);
                if values.is_empty() {
                    return Ok(None);
                }
            }
            Err(MultiWriteError::OperationFailed {
                source: Error::NoNode | Error::NodeExists,
                ..
            }) => return Ok(None),
            Err(error) => return Err(Error::from(error).into()),
        }
    }
    Ok(values.pop())
}

/// Replaces the base; `None` if it must be read again: another process has replaced it, or the root was gone.
async fn replace(
    session: &Session,
    root: &str,
    old: Option<Base>,
) -> Result<Option<Base>, Failure> {
    let value = following(old.map(|old| old.value), fence_by_the_clock());
    let new = names::base(root, value);
    let options = CreateMode::Persistent.with_acls(session.acls());
    let mut writer = session.client.new_multi_writer();
    match old {
        Some(old) => writer.add_delete(&names::base(root, old.value), None)?,
        None => writer.add_create(&names::bases(root), b"", &options)?,
    }
    writer.add_create(&new, b"", &options)?;
    match writer.commit().await {
        Ok(_) => {}
        Err(MultiWriteError::OperationFailed {
            source: source @ (Error::NoNode | Error::NodeExists),
            ..
        }) => {
            if old.is_none() && source == Error::NoNode {
                // An operator has deleted the directory of all locks, which nothing else makes before the next session.
                let options = CreateMode::Persistent.with_acls(session.acls());
                session.client.mkdir(root, &options).await?;
            }
            return Ok(None);
        }
        Err(error) => return Err(Error::from(error).into()),
    }
    // Some versions of the server do not say in the answer when a node was created.
    let stat = session.client.check_stat(&new).await?;
    Ok(stat.map(|stat| Base {
        value,
        since: stat.czxid,
    }))
}
