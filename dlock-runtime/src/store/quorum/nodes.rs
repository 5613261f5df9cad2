//! The stores of a quorum, and a future for the request to each of them.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    key::LockKey,
    mode::LockMode,
    owner::OwnerId,
    store::{
        AcquireOutcome, AcquireRequest, DynNode, Proposal, RaiseRequest, Raised, ReleaseRequest,
        Released, RenewBatch, RenewRequest, Renewal, StoreError,
    },
};

/// The stores; each is a node.
pub(super) type Nodes = Arc<[Box<dyn DynNode>]>;

/// A request that goes to all nodes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) key: LockKey,
    /// The owner id of the attempt, as the manager knows it.
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) mode: LockMode,
    pub(super) label: Box<str>,
    pub(super) function: Box<str>,
}

/// The answer of one node.
pub(super) struct Reply<T> {
    pub(super) node: usize,
    /// The id that was sent to the node.
    pub(super) id: OwnerId,
    pub(super) answer: Result<T, StoreError>,
}

impl<T> Reply<T> {
    fn of(node: usize, id: OwnerId, answer: Result<T, StoreError>) -> Self {
        Self { node, id, answer }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({}, {})", self.node, self.id)
    }
}

impl Ask {
    /// Returns the request for one node.
    pub(super) fn proposal(&self, id: OwnerId, fence: u64) -> Proposal<'_> {
        let request = AcquireRequest::new(&self.key, id, self.ttl);
        let request = request
            .mode(self.mode)
            .label(&self.label)
            .function(&self.function);
        Proposal::new(request, fence)
    }
}

/// Sends an acquire request to one node. With `waits`, the owner wants a notice if the key is held.
pub(super) async fn acquire(
    nodes: Nodes,
    ask: Arc<Ask>,
    node: usize,
    id: OwnerId,
    waits: bool,
    proposal: u64,
) -> Reply<AcquireOutcome> {
    let proposal = ask.proposal(id, proposal).notice(waits);
    Reply::of(node, id, nodes[node].propose(proposal).await)
}

pub(super) async fn raise(
    nodes: Nodes,
    ask: Arc<Ask>,
    node: usize,
    id: OwnerId,
    [from, to]: [u64; 2],
) -> Reply<Raised> {
    let raise = RaiseRequest::new(&ask.key, id, from, to);
    Reply::of(node, id, nodes[node].raise(raise).await)
}

pub(super) async fn release(
    nodes: Nodes,
    key: LockKey,
    mode: LockMode,
    node: usize,
    id: OwnerId,
) -> Reply<Released> {
    let release = ReleaseRequest::new(&key, id).mode(mode);
    Reply::of(node, id, nodes[node].release(release).await)
}

/// Sends all renewals of one node.
pub(super) async fn renew_all(
    nodes: Nodes,
    asks: Arc<[(Ask, super::claims::Standing)]>,
    node: usize,
    limit: Duration,
    runtime: Option<Handle>,
) -> (usize, Vec<Result<Renewal, StoreError>>) {
    let requests: Vec<_> = asks
        .iter()
        .map(|(ask, standing)| {
            RenewRequest::new(&ask.key, standing.ids.at(node), ask.ttl)
                .mode(ask.mode)
                .label(&ask.label)
                .function(&ask.function)
        })
        .collect();
    let mut batch = RenewBatch::new(&requests).limit(limit);
    batch.runtime = runtime.as_ref();
    (node, nodes[node].renew(batch).await)
}

type Request<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Requests in progress, and unread answers. Dropping it cancels the requests.
pub(super) struct Requests<T> {
    /// In the order in which they were sent.
    pending: Vec<Request<T>>,
    answers: VecDeque<T>,
}

impl<T> Requests<T> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            pending: Vec::with_capacity(count),
            answers: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, request: impl Future<Output = T> + Send + 'static) {
        self.pending.push(Box::pin(request));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.answers.is_empty()
    }

    /// Returns the next answer, or `None` without requests.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if self.answers.is_empty() {
            // Polls all requests, so that all are sent before the first answer is read.
            let answers = &mut self.answers;
            self.pending
                .retain_mut(|request| match request.as_mut().poll(context) {
                    Poll::Ready(answer) => {
                        answers.push_back(answer);
                        false
                    }
                    Poll::Pending => true,
                });
        }
        match self.answers.pop_front() {
            Some(answer) => Poll::Ready(Some(answer)),
            None if self.pending.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Returns the next answer, or `None` without requests or at `until`.
    pub(super) async fn next(&mut self, timer: &mut Timer) -> Option<T> {
        poll_fn(|context| match self.poll_next(context) {
            Poll::Pending => timer.poll(context).map(|()| None),
            answer @ Poll::Ready(_) => answer,
        })
        .await
    }
}

/// A timer that is created only when it is awaited.
pub(super) struct Timer {
    until: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    pub(super) fn new(until: Instant) -> Self {
        Self { until, sleep: None }
    }

    /// Sets another time.
    pub(super) fn reset(&mut self, until: Instant) {
        self.until = until;
        if let Some(sleep) = &mut self.sleep {
            sleep.as_mut().reset(until);
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let until = self.until;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(until)));
        sleep.as_mut().poll(context)
    }
}

/// Runs work that no caller waits for, if there is a runtime.
///
/// The work has begun when this returns: its requests are sent before any later ones. Without a runtime, the work
/// does not begin, because a timer would panic, possibly during a drop.
pub(super) fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    let mut work = Box::pin(work);
    let mut context = Context::from_waker(Waker::noop());
    if work.as_mut().poll(&mut context).is_pending() {
        runtime.spawn(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_in_the_background_needs_a_runtime_and_does_not_panic_without() {
        in_background(async { tokio::time::sleep(Duration::from_secs(1)).await });
    }
}
