//! The creation of a child, and what this process notes of it.

use dlock_runtime::{
    FencingToken,
    clock::{Clock, SystemClock},
    store::{ALIVE, GRANT_TTL, StoreError, StoreErrorKind},
};
use tokio::{join, time::Instant};
use zookeeper_client::{CreateMode, Error, MultiWriteError, MultiWriteResult, Stat};

use crate::{
    base,
    data::{Held, Value},
    errors::Failure,
    fence::Base,
    holder, names,
    queue::Queue,
    repeats::Repeats,
    session::Session,
    shared::{Request, list},
    slots::{Child, Locked},
};

/// Creates the child of a claim, the last one of its key, while its base of fences is there. Returns the queue behind it, or
/// why that has no answer.
///
/// An exclusive claim is usually alone, and its transaction shows that: it also writes the directory, whose state in the answer
/// has the number of children behind the creation. Other claims join others, so the queue is read in any case. That request
/// is sent at once: a session has its answers in the order of its requests, and a server that answers for the queue has
/// carried out all that was written before the child.
pub(crate) async fn create(
    session: &Session,
    slot: &mut Locked,
    root: &str,
    directory: &str,
    request: &Request,
) -> Result<Result<Queue, Error>, Failure> {
    let path = format!("{directory}/{}", names::prefix(request.owner, request.mode));
    let options = CreateMode::EphemeralSequential.with_acls(session.acls());
    let mut repeats = Repeats::default();
    loop {
        let base = base::current(session, root).await?;
        let value = text(base, request);
        let mut writer = session.client.new_multi_writer();
        writer.add_check_version(&names::base(root, base.value), -1)?;
        writer.add_create(&path, &value.to_bytes(), &options)?;
        let counts = request.mode.is_exclusive();
        if counts {
            writer.add_set_data(directory, b"", None)?;
        }
        // Until the answer says otherwise, also if this future is dropped.
        slot.unknown = Some(session.clone());
        let written = SystemClock.now();
        let committed = writer.commit();
        let (committed, queue) = if counts {
            (committed.await, None)
        } else {
            let (committed, queue) = join!(committed, list(session, directory));
            (committed, Some(queue))
        };
        let Created {
            path,
            stat,
            directory: parent,
        } = match committed {
            Ok(results) => created(results)?,
            Err(MultiWriteError::OperationFailed { index, source }) => {
                slot.unknown = None;
                match (index, source) {
                    // Another process has replaced it.
                    (0, Error::NoNode) => session.base.forget(),
                    (1, Error::NoNode) => make_directory(session, directory).await?,
                    (_, error) => return Err(error.into()),
                }
                repeats.again().await?;
                continue;
            }
            Err(MultiWriteError::RequestFailed { source }) => return Err(source.into()),
        };
        session.proof.wrote(written);
        let czxid = if let Some(parent) = &parent {
            // It was written by the same transaction.
            parent.mzxid
        } else if stat.is_invalid() {
            // Old servers do not say in the answer when the node was created.
            let stat = session.client.check_stat(&path).await?;
            stat.map_or(-1, |stat| stat.czxid)
        } else {
            stat.czxid
        };
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let is_placed = if session.base.get() == Some(base) {
            place(session, slot, directory, name.clone(), &value, czxid).await?
        } else {
            // There may be another connection, to a server with data from before other children of this base.
            delete(session, &path).await?;
            false
        };
        slot.unknown = None;
        if is_placed {
            return Ok(match queue {
                Some(queue) => queue,
                None if parent.is_some_and(|it| it.num_children == 1) => Ok(Queue::read(&[name])),
                None => list(session, directory).await,
            });
        }
        base::replace_used_up(session, root, base).await?;
        repeats.again().await?;
    }
}

/// The text of a new child: an exclusive claim expects to hold the key, as most do. Others write their fence when they hold.
fn text(base: Base, request: &Request) -> Value {
    if !request.mode.is_exclusive() {
        return waiter(base, request);
    }
    Value {
        ttl: request.ttl,
        held: Some(Held {
            fence: None,
            since: holder::now_in_milliseconds(),
        }),
        label: Some(request.label.clone()),
        function: Some(request.function.clone()),
        ..waiter(base, request)
    }
}

fn waiter(base: Base, request: &Request) -> Value {
    Value {
        base,
        ttl: GRANT_TTL,
        held: None,
        label: None,
        function: None,
        waiter: Some(request.label.clone()),
    }
}

/// Writes the text of a waiter, if the child has that of a holder. Only people read it, so the answer is not waited for.
pub(crate) fn tell_that_it_waits(session: &Session, child: &mut Child, request: &Request) {
    if !std::mem::take(&mut child.is_hopeful) {
        return;
    }
    let text = waiter(child.base, request).to_bytes();
    // The call sends the request.
    drop(session.client.set_data(&child.path(), &text, None));
}

/// The answer to a creation.
struct Created {
    path: String,
    stat: Stat,
    /// The state of the directory behind the creation, if it was written too.
    directory: Option<Stat>,
}

fn created(results: Vec<MultiWriteResult>) -> Result<Created, Failure> {
    let mut results = results.into_iter().skip(1);
    match (results.next(), results.next()) {
        (Some(MultiWriteResult::Create { path, stat }), None) => Ok(Created {
            path,
            stat,
            directory: None,
        }),
        (
            Some(MultiWriteResult::Create { path, stat }),
            Some(MultiWriteResult::SetData { stat: directory }),
        ) => Ok(Created {
            path,
            stat,
            directory: Some(directory),
        }),
        other => {
            let message = format!("ZooKeeper answered a creation with {other:?}");
            Err(StoreError::new(StoreErrorKind::BadAnswer, message).into())
        }
    }
}

async fn make_directory(session: &Session, directory: &str) -> Result<(), Failure> {
    let directories = CreateMode::Container.with_acls(session.acls());
    match session.client.create(directory, b"", &directories).await {
        Ok(_) => {
            session.leftovers.note(directory);
            Ok(())
        }
        Err(Error::NodeExists) => Ok(()),
        // With the directory of all locks, the base is gone, and is made again.
        Err(Error::NoNode) => {
            session.base.forget();
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Deletes a node, if it is there.
pub(crate) async fn delete(session: &Session, path: &str) -> Result<(), Failure> {
    match session.client.delete(path, None).await {
        Ok(()) | Err(Error::NoNode) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Notes a child of this process. `false` if it has no fence, as too much has happened since its base: then it is deleted.
pub(crate) async fn place(
    session: &Session,
    slot: &mut Locked,
    directory: &str,
    name: String,
    value: &Value,
    czxid: i64,
) -> Result<bool, Failure> {
    let path = format!("{directory}/{name}");
    let Some(fence) = value.base.fence(czxid) else {
        delete(session, &path).await?;
        return Ok(false);
    };
    if names::Entry::read(&name).is_none_or(|it| it.is_past_the_end()) {
        // Places begin again in a directory that is made anew, as soon as those before it are gone.
        delete(session, &path).await?;
        match session.client.delete(directory, None).await {
            Ok(()) | Err(Error::NoNode | Error::NotEmpty) => {}
            Err(error) => return Err(error.into()),
        }
        let message = format!(
            "`{directory}` has used up its 2^31 places: it lets in no more claims until all that are there have ended; it is \
             then made anew"
        );
        let error = StoreError::new(StoreErrorKind::Refused, message).with_advice();
        return Err(error.without_effect().into());
    }
    if FencingToken::from_fence(fence).is_none() {
        // It would block the key until its session ends.
        delete(session, &path).await?;
        let message = format!(
            "the numbers of ZooKeeper are used up: `{name}` has the fence {fence}; use another directory"
        );
        return Err(StoreError::new(StoreErrorKind::BadAnswer, message)
            .with_advice()
            .into());
    }
    slot.child = Some(Child {
        session: session.clone(),
        directory: directory.to_owned(),
        name,
        base: value.base,
        fence,
        held: None,
        watching: None,
        is_hopeful: value.held.is_some(),
        needs_write: false,
        is_doubtful: false,
        timer: None,
        ends: Instant::now() + ALIVE,
        label: None,
        function: None,
    });
    Ok(true)
}
