//! Leases that replicas have confirmed, for `min_replicas`.
//!
//! `WAIT` counts the replicas that have received the writes of its own connection, and blocks that connection.
//! There is therefore a second connection with a supervisor of its own. A granted lease is renewed over it,
//! followed by `WAIT` in the same write; all renewals use it too. The renewal also shows whether the lease is
//! still held where the replicas are counted. A replica that has confirmed it has all earlier writes of its
//! master, such as the grant and the fence. One task collects all requests that arrive while it waits, and
//! confirms them with one `WAIT`. Callers therefore do not queue, however long a replica takes.
//!
//! - **[S]** A lease that is not confirmed in time counts as a request without an answer: the attempt repeats
//!   its request, finds its own lease, and releases it when its wait ends, as after any unknown outcome. Until
//!   then other clients find the key held; they could not have confirmed it either.
//! - **[S]** The two connections may reach different masters for a moment. A lease that is not found where
//!   replicas are counted was not confirmed. *Not the owner* from a master with too few replicas counts as no
//!   answer: the master may have been replaced, or may have restarted without data.
//! - **[S]** A hint says nothing about replicas. It is forwarded with the fence 0, which no answer confirms, so
//!   that the waiter sends a request. (`a_hint_without_a_fence_only_makes_the_waiter_ask`,
//!   `a_lease_that_is_handed_on_is_confirmed_too`)
//! - A release is not confirmed: if a failover loses it, other clients wait at most one TTL, or, if they share
//!   the lock, join the lease. It uses the first connection. A renewal that arrives after it does not find the lease, and changes nothing.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use ::redis::{Cmd, Value};
use futures_util::future::join_all;
use tokio::{
    runtime,
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    time::Instant,
};

use crate::store::{
    Renewal, StoreError, StoreErrorKind,
    redis::{
        net::{
            connection::Handle,
            home::Home,
            node::Node,
            service::{Service, Work},
        },
        protocol::{answers, command::Command, errors},
    },
};

/// More commands than this go in several writes.
const MOST_AT_ONCE: usize = 256;

/// Confirms leases while this value lives.
pub(crate) struct Confirmer {
    node: Arc<Node>,
    limit: Duration,
    pending: UnboundedSender<Pending>,
    task: Service<Group>,
}

/// A command, and the caller that waits for its answer.
struct Pending {
    /// `None` to test whether the server can wait for replicas.
    command: Option<Command>,
    answer: oneshot::Sender<Result<Value, StoreError>>,
}

impl Confirmer {
    /// `limit` is the time for which a caller waits, including the time of other callers.
    pub(crate) fn start(node: Node, replicas: u32, limit: Duration, home: &Arc<Home>) -> Self {
        let (pending, inbox) = mpsc::unbounded_channel();
        let node = Arc::new(node);
        let group = Group {
            node: node.clone(),
            replicas,
            // Twice within the limit, because a command may have to wait for an earlier one, or be sent again to a
            // server that forgot its script. A server ends a wait up to 100 ms late.
            patience: (limit.saturating_mul(3) / 10).max(Duration::from_millis(1)),
            inbox,
        };
        Self {
            node,
            limit,
            pending,
            task: Service::start(group, home),
        }
    }

    /// Waits until the server is ready and permits waiting for its replicas. There may be too few of them, now or
    /// later.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        self.node.ready(limit).await?;
        match self.put(None, self.limit).await {
            Err(error) if error.is_final() => Err(error),
            _ => Ok(()),
        }
    }

    /// Executes a writing command. It counts only if enough replicas have confirmed it within `limit`.
    pub(crate) async fn execute(
        &self,
        command: Command,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        self.put(Some(command), limit.min(self.limit)).await
    }

    /// Renews a lease.
    pub(crate) async fn renew(
        &self,
        command: Command,
        limit: Duration,
    ) -> Result<Renewal, StoreError> {
        answers::read_renewal(&self.execute(command, limit).await?)
    }

    /// Does the same for several leases.
    pub(crate) async fn renew_all(
        &self,
        commands: Vec<Command>,
        limit: Duration,
    ) -> Vec<Result<Renewal, StoreError>> {
        join_all(
            commands
                .into_iter()
                .map(|command| self.renew(command, limit)),
        )
        .await
    }

    /// Confirms a lease that was just granted, by a renewal within `limit`.
    ///
    /// # Errors
    ///
    /// Never an error that says that nothing was done: the lease was granted.
    pub(crate) async fn granted(
        &self,
        command: Command,
        limit: Duration,
    ) -> Result<(), StoreError> {
        let unconfirmed = |why: &str| {
            let message = format!("the replicas could not be asked to confirm the lease: {why}");
            StoreError::new(StoreErrorKind::Disconnected, message)
        };
        match self.renew(command, limit).await {
            Ok(Renewal::Renewed) => Ok(()),
            // It has expired, or one of the two connections is at another master by now.
            Ok(Renewal::NotOwner) => Err(unconfirmed("the lease had ended")),
            Err(error) if error.left_nothing() => Err(unconfirmed(error.message())),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, command: Option<Command>, limit: Duration) -> Result<Value, StoreError> {
        // Without a runtime, a timer panics.
        if runtime::Handle::try_current().is_err() {
            return Err(errors::no_runtime("no tokio runtime is running here").unsent());
        }
        let (answer, answered) = oneshot::channel();
        let interrupted = "the task that confirms leases with the replicas was interrupted";
        let interrupted = || StoreError::new(StoreErrorKind::Disconnected, interrupted);
        if self.pending.send(Pending { command, answer }).is_err() {
            return Err(interrupted().unsent());
        }
        let answered = async {
            tokio::select! {
                biased;
                answer = answered => answer.unwrap_or_else(|_| Err(interrupted())),
                // It may have been sent before.
                error = self.task.keep_going() => Err(error.with_possible_effect()),
            }
        };
        let answer = self.task.attend(Instant::now() + limit, answered).await;
        answer.unwrap_or_else(|| Err(StoreError::timed_out(limit)))
    }
}

/// The task that waits for the replicas of all callers at once.
struct Group {
    node: Arc<Node>,
    replicas: u32,
    /// The time limit of the replicas.
    patience: Duration,
    inbox: UnboundedReceiver<Pending>,
}

impl Work for Group {
    async fn run(&mut self) {
        let mut group = Vec::new();
        while self.inbox.recv_many(&mut group, MOST_AT_ONCE).await > 0 {
            // A caller that has given up releases the lease, and needs no renewal.
            group.retain(|pending| !pending.answer.is_closed());
            if group.is_empty() {
                continue;
            }
            let (commands, callers): (Vec<_>, Vec<_>) = group
                .drain(..)
                .map(|pending| (pending.command, pending.answer))
                .unzip();
            let asked: Vec<_> = commands.iter().map(Option::is_some).collect();
            let commands: Vec<_> = commands.into_iter().flatten().collect();
            let (answers, confirmed) = self.confirm(&commands).await;
            let mut answers = answers.into_iter();
            for (caller, asked) in callers.into_iter().zip(asked) {
                let answer = if asked { answers.next() } else { None };
                let answer = answer.unwrap_or(Ok(Value::Nil));
                // The failure of a command is more specific than that of the `WAIT` after it.
                let answer = answer.and_then(|value| confirmed.clone().map(|()| value));
                // The caller may have given up by now.
                caller.send(answer).ok();
            }
        }
    }

    /// Callers whose commands were in progress already have the error; the others stay in the inbox.
    fn interrupted(&mut self, _panic: Option<&str>) {}
}

impl Group {
    /// Returns one answer for each command, and whether enough replicas have confirmed them.
    async fn confirm(
        &self,
        commands: &[Command],
    ) -> (Vec<Result<Value, StoreError>>, Result<(), StoreError>) {
        let wait = self.wait();
        let commands: Vec<_> = commands.iter().collect();
        let request = async |handle: Handle| handle.execute_all_then(&commands, &wait).await;
        match self.node.over_connection(request).await {
            Ok((answers, waited)) => {
                let confirmed = waited.and_then(|count| self.is_enough(&count));
                // The commands before the `WAIT` were carried out, confirmed or not.
                (answers, confirmed.map_err(StoreError::with_possible_effect))
            }
            Err(error) => (vec![Err(error.clone()); commands.len()], Err(error)),
        }
    }

    fn wait(&self) -> Cmd {
        let mut wait = ::redis::cmd("WAIT");
        let milliseconds = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        // Zero would wait without a limit.
        wait.arg(self.replicas).arg(milliseconds.max(1));
        wait
    }

    fn is_enough(&self, count: &Value) -> Result<(), StoreError> {
        let Value::Int(count) = count else {
            return Err(errors::bad_answer("the answer to `WAIT` is not a number"));
        };
        if *count >= i64::from(self.replicas) {
            return Ok(());
        }
        let (replicas, patience) = (self.replicas, self.patience);
        let message = format!("{count} of {replicas} replicas confirmed within {patience:?}");
        Err(StoreError::new(StoreErrorKind::TooFewReplicas, message))
    }
}
