//! The requests of a store: each one script, and with `min_replicas` an answer that counts once the
//! replicas have what it says.

use std::time::Duration;

use ::redis::Value;
use tokio::{runtime, time::Instant};

use super::{
    RedisStore,
    protocol::{answers, command::Command},
    topology::lane::{self, Connections},
};
use crate::{
    options::MAX_TTL,
    store::{
        AcquireOutcome, AcquireRequest, LockModes, LockStore, Proposal, QuorumNode, RaiseRequest,
        Raised, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal, StoreError,
        StoreProperties,
    },
};

impl RedisStore {
    /// Sends `command`; what it grants for `request` counts once the replicas have it.
    async fn ask(
        &self,
        command: Command,
        request: AcquireRequest<'_>,
    ) -> Result<AcquireOutcome, StoreError> {
        let confirmer = self.confirmer.as_ref().map(|it| (it, Instant::now()));
        let answer = self.execute(command).await?;
        let acquisition = answers::read_acquisition(&answer)?;
        if let (Some((confirmer, begun)), AcquireOutcome::Granted { .. }) =
            (confirmer, &acquisition)
        {
            let left = self.config.response_timeout;
            let left = left.saturating_sub(begun.elapsed());
            let renewal =
                RenewRequest::new(request.key, request.owner, request.ttl).mode(request.mode);
            let renewal = renewal.label(request.label).function(request.function);
            let renewal = Command::renew(&self.config, &renewal);
            confirmer.granted(renewal, left).await?;
        }
        Ok(acquisition)
    }

    pub(super) async fn execute(&self, command: Command) -> Result<Value, StoreError> {
        self.presences.revive();
        let begun = Instant::now();
        let answer = self.servers.execute(&command).await?;
        for unsent in answers::unsent_wake_ups(&answer) {
            let limit = self.config.response_timeout;
            let limit = limit.saturating_sub(begun.elapsed());
            let (servers, shown) = (&*self.servers, &*self.shown);
            // Boxed: hardly a command needs it, and all would have room for it.
            let published = self
                .wake_ups
                .publish(servers, shown, &command, unsent, limit);
            Box::pin(published).await;
        }
        Ok(answer)
    }

    /// Begins to connect for renewals on `runtime`, once.
    fn prepare_renewals(&self, runtime: &runtime::Handle) {
        self.lane.get_or_init(|| {
            Connections::start(
                &self.way,
                &self.shown,
                &self.config,
                self.min_replicas,
                runtime,
            )
        });
    }
}

impl LockStore for RedisStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.ask(Command::acquire(&self.config, &request), request)
            .await
    }

    /// All in one write to each server.
    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        if let Some(runtime) = batch.runtime {
            self.prepare_renewals(runtime);
        }
        if batch.requests.is_empty() {
            return Vec::new();
        }
        let limit = batch.limit.unwrap_or(self.config.response_timeout);
        let (config, own) = (&self.config, &self.renewals);
        lane::renew_all(config, batch.requests, limit, self.lane.get(), own).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let answer = self
            .execute(Command::release(&self.config, &request))
            .await?;
        answers::read_release(&answer)
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .gives_up_after(self.config.response_timeout)
            .ttls(Duration::from_millis(1), MAX_TTL)
            .modes(if self.config.raw_keys {
                LockModes::EXCLUSIVE
            } else {
                LockModes::ALL
            })
            .hooks(self)
    }
}

impl QuorumNode for RedisStore {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        self.ask(Command::propose(&self.config, &proposal), proposal.request)
            .await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let command = Command::raise(&self.config, &request);
        let limit = self.config.response_timeout;
        let answer = match &self.confirmer {
            Some(confirmer) => confirmer.execute(command, limit).await,
            None => self.execute(command).await,
        };
        answers::read_raise(&answer?)
    }
}
