//! Waiters: each watches the children before its own that keep it from holding, and is woken when none is left.
//!
//! A watch for children of a child has one event alone: the deletion. Watches for its data would wake the waiter at each
//! renewal of the holder.

use std::sync::Arc;

use dlock_runtime::store::GRANT_TTL;
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use tokio::{runtime::Handle, time::Instant};
use zookeeper_client::Error;

use crate::{
    claims::{Claim, Core, list},
    session::Session,
    slots::{Child, Watching},
};

impl Core {
    /// Starts the timer of a child, once.
    pub(crate) fn end_in_time(self: &Arc<Self>, handle: &Handle, claim: &Claim, child: &mut Child) {
        if child.is_timed {
            return;
        }
        child.is_timed = true;
        let (core, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
        let (name, ends) = (child.name.clone(), child.ends);
        handle.spawn(async move { core.slots.end_in_time(key, owner, name, ends).await });
    }

    /// Starts to watch for a child that waits, once.
    pub(crate) fn watch(self: &Arc<Self>, handle: &Handle, claim: &Claim, child: &mut Child) {
        if child.watching.is_some() {
            return;
        }
        let (core, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
        let (session, directory) = (child.session.clone(), child.directory.clone());
        let name = child.name.clone();
        let task = handle.spawn(async move {
            let again = || core.answers.forget(&key, owner);
            until_free(&session, &directory, &name, again).await;
            let mut slot = core.slots.lock(&key, owner).await;
            if let Some(child) = slot.child.as_mut().filter(|it| it.name == name) {
                // This ends the task itself at its next await, and there is none.
                child.watching = None;
                child.ends = child.ends.max(Instant::now() + GRANT_TTL);
            }
            core.slots.unlock(&key, owner, slot);
            core.sinks.wake(&key, owner);
        });
        child.watching = Some(Watching(task.abort_handle()));
    }
}

/// Waits until a child holds its key or is gone, or the server does not answer. Calls `again` when the queue before the child
/// has changed.
async fn until_free(session: &Session, directory: &str, name: &str, again: impl Fn()) {
    loop {
        let Ok(queue) = list(session, directory).await else {
            // Without an answer, the waiter asks.
            return;
        };
        let obstacles = queue.obstacles(name);
        if obstacles.is_empty() {
            return;
        }
        let paths: Vec<_> = obstacles
            .iter()
            .map(|it| format!("{directory}/{}", it.name))
            .collect();
        let set = paths
            .iter()
            .map(|path| session.client.list_and_watch_children(path));
        let (mut events, mut is_gone) = (FuturesUnordered::new(), false);
        for set in join_all(set).await {
            match set {
                Ok((_, watcher)) => events.push(watcher.changed()),
                Err(Error::NoNode) => is_gone = true,
                Err(_) => return,
            }
        }
        if !is_gone {
            events.next().await;
        }
        again();
    }
}
