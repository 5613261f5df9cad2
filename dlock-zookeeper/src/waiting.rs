//! Waiters: each watches the children before its own that keep it from holding, and is woken when none is left.
//!
//! An exclusive waiter that has seen its own child in front of the queue holds the key, and its body begins without another
//! request, if the session certainly lasts for the grant. Any other one asks.
//!
//! A watch for children of a child has one event alone: the deletion. Watches for its data would wake the waiter at each
//! renewal of the holder.

use std::{collections::HashMap, convert::Infallible, future::poll_fn, sync::Arc, task::Poll};

use dlock_runtime::store::GRANT_TTL;
use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::{runtime::Handle, time::Instant};
use zookeeper_client::Error;

use crate::{
    confirm::grant,
    session::Session,
    shared::{Core, Request, list},
    slots::{Child, Watching},
    timers::Ending,
};

impl Core {
    /// Starts the timer of a child, if it has none, or one that is too late for a lease that was shortened.
    pub(crate) fn end_in_time(&self, request: &Request, child: &mut Child) {
        let ends = child.ends;
        if child.timer.is_some_and(|timer| timer <= ends) {
            return;
        }
        child.timer = Some(ends);
        self.timers
            .add(ends, child.ending(&request.key, request.owner));
    }

    /// Ends children in time, for as long as this future is polled.
    pub(crate) async fn end_children(self: Arc<Self>, handle: Handle) -> Infallible {
        loop {
            let (due, all) = self.timers.next().await;
            for Ending { key, owner, name } in all {
                // Each may wait for a request of its claim.
                let core = self.clone();
                handle.spawn(async move { core.slots.end_in_time(key, owner, name, due).await });
            }
        }
    }

    /// Starts to watch for a child that waits, once.
    pub(crate) fn watch(self: &Arc<Self>, handle: &Handle, request: &Request, child: &mut Child) {
        if child.watching.is_some() {
            return;
        }
        let (core, key, owner) = (self.clone(), request.key.clone(), request.owner);
        let (session, directory) = (child.session.clone(), child.directory.clone());
        let (name, mode) = (child.name.clone(), request.mode);
        let task = handle.spawn(async move {
            let again = || core.answers.forget(&key, owner);
            let is_free = until_free(&session, &directory, &name, again).await;
            let mut fence = 0;
            let (mut slot, is_recent) = core.slots.lock_after(&key, owner).await;
            if let Some(child) = slot.child.as_mut().filter(|it| it.name == name) {
                // This ends the task itself at its next await, and there is none.
                child.watching = None;
                child.ends = child.ends.max(Instant::now() + GRANT_TTL);
                // Behind another request, the child may have been deleted since it was seen in front.
                if is_free && is_recent {
                    fence = grant(&session, child, mode);
                    if fence > 0 {
                        slot.note_grant();
                    }
                }
            }
            core.slots.unlock(&key, owner, slot);
            core.sinks.wake(&key, owner, fence);
        });
        child.watching = Some(Watching(task.abort_handle()));
    }
}

type Event = BoxFuture<'static, ()>;

/// Waits until a child holds its key or is gone, or the server does not answer. Returns `true` if the child has been seen to
/// hold it. Calls `again` when the queue before the child has changed.
async fn until_free(session: &Session, directory: &str, name: &str, again: impl Fn()) -> bool {
    // A watch stays set as long as its child is an obstacle, whichever others leave.
    let mut watched: HashMap<String, Event> = HashMap::new();
    loop {
        let Ok(queue) = list(session, directory).await else {
            // Without an answer, the waiter asks.
            return false;
        };
        let obstacles = queue.obstacles(name);
        if obstacles.is_empty() {
            return queue.holds(name);
        }
        watched.retain(|name, _| obstacles.iter().any(|it| it.name == *name));
        let new = obstacles
            .iter()
            .filter(|it| !watched.contains_key(&it.name));
        let set = new.map(async |it| {
            let path = format!("{directory}/{}", it.name);
            let set = session.client.list_and_watch_children(&path).await;
            (it.name.clone(), set)
        });
        let (set, mut is_gone) = (join_all(set).await, false);
        for (name, set) in set {
            match set {
                Ok((_, watch)) => {
                    let event = watch.changed().map(drop).boxed();
                    watched.insert(name, event);
                }
                Err(Error::NoNode) => is_gone = true,
                Err(_) => return false,
            }
        }
        if !is_gone {
            let left = first(&mut watched).await;
            watched.remove(&left);
        }
        again();
    }
}

/// Waits for the first event, and returns its child.
async fn first(watched: &mut HashMap<String, Event>) -> String {
    poll_fn(|context| {
        let mut events = watched.iter_mut();
        let ready = events.find_map(|(name, event)| {
            let is_ready = event.poll_unpin(context).is_ready();
            is_ready.then(|| name.clone())
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
