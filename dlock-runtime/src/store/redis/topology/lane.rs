//! Separate connections for the renewal of leases.
//!
//! They run on the thread that renews. A runtime of the user therefore cannot delay them, and no renewal waits
//! behind other requests. They are opened when the first lease of the store is due.
//!
//! A renewal that cannot be sent there uses the store's other connection: a server may refuse new connections,
//! or a certificate may have expired, while the old connection still works. This applies only to renewals that
//! were certainly not carried out. All renewals of a lease have the same TTL, so their order over two
//! connections does not matter. The request that keeps a lease for its `min_hold` waits for the renewal before
//! it.

use std::{sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{runtime::Handle, time::Instant};

use super::{cluster::Cluster, replicas::Confirmer, servers::Servers, source::Source};
use crate::store::{
    RenewRequest, Renewal, StoreError,
    redis::{
        RedisConfig,
        config::url::Location,
        net::{events::Events, hints::Hints, home::Home, node::Node},
        protocol::{answers, command::Command},
    },
};

/// The way to the servers of a store, for one more set of connections.
pub(crate) enum Way {
    One(Source),
    Cluster(Location),
}

/// The connections for renewals.
pub(crate) enum Connections {
    Plain(Arc<Servers>),
    /// For `min_replicas`.
    Confirmed(Arc<Confirmer>),
}

impl Connections {
    /// Starts to connect on `runtime`.
    pub(crate) fn start(
        way: &Way,
        shown: &str,
        config: &Arc<RedisConfig>,
        min_replicas: u32,
        runtime: &Handle,
    ) -> Self {
        let hints = Arc::new(Hints::unwanted());
        let events = Events::of_second(shown.to_owned());
        let home = Home::on(runtime.clone(), config.response_timeout);
        let servers = match way {
            Way::One(source) => {
                let node = Node::start(source.apart(), config, &hints, events, &home);
                if min_replicas > 0 {
                    let limit = config.response_timeout;
                    let confirmer = Confirmer::start(node, min_replicas, limit, &home);
                    return Self::Confirmed(Arc::new(confirmer));
                }
                Servers::One(Box::new(node))
            }
            Way::Cluster(location) => Servers::Cluster(Cluster::start(
                location.clone(),
                config,
                &hints,
                &home,
                events,
            )),
        };
        Self::Plain(Arc::new(servers))
    }

    async fn renew_all(
        &self,
        commands: Vec<Command>,
        limit: Duration,
    ) -> Vec<Result<Renewal, StoreError>> {
        match self {
            Self::Plain(servers) => {
                let answers = servers.execute_all(&commands, limit).await;
                let read = |answer: Result<Value, StoreError>| answers::read_renewal(&answer?);
                answers.into_iter().map(read).collect()
            }
            Self::Confirmed(confirmer) => confirmer.renew_all(commands, limit).await,
        }
    }
}

/// Renews over `lane`, or over the store's `own` connections if a renewal cannot be sent there.
pub(crate) async fn renew_all(
    config: &RedisConfig,
    requests: &[RenewRequest<'_>],
    limit: Duration,
    lane: Option<&Connections>,
    own: &Connections,
) -> Vec<Result<Renewal, StoreError>> {
    let begun = Instant::now();
    let command = |request: &RenewRequest<'_>| Command::renew(config, request);
    let all: Vec<_> = requests.iter().map(command).collect();
    let Some(lane) = lane else {
        return own.renew_all(all, limit).await;
    };
    let mut answers = lane.renew_all(all, limit).await;
    let is_unsent =
        |answer: &Result<_, StoreError>| answer.as_ref().is_err_and(StoreError::left_nothing);
    let unsent: Vec<_> = (0..answers.len())
        .filter(|&at| is_unsent(&answers[at]))
        .collect();
    let rest = limit.saturating_sub(begun.elapsed());
    if unsent.is_empty() || rest.is_zero() {
        return answers;
    }
    let again: Vec<_> = unsent.iter().map(|&at| command(&requests[at])).collect();
    for (at, answer) in unsent.into_iter().zip(own.renew_all(again, rest).await) {
        answers[at] = answer;
    }
    answers
}
